//! Tests of `page`.

use super::*;
use crate::ingest::ServiceObject;

/// Splits a page of this many empty objects, and returns their number.
fn split(objects: usize, encoding: Encoding) -> Result<usize, String> {
    let body = match encoding {
        Encoding::Json => format!("{{\"items\":[{}5]}}", "5,".repeat(objects - 1)).into_bytes(),
        Encoding::Protobuf => {
            let mut body = b"k8s\0\x12".to_vec();
            prost::encode_length_delimiter(2 * objects, &mut body).unwrap();
            body.extend([0x12, 0].repeat(objects));
            body
        }
    };
    let page = Page::new(body, encoding);
    let contents = page.split::<ServiceObject>();
    contents
        .map(|contents| contents.objects.len())
        .map_err(|error| error.in_full())
}

#[test]
fn a_page_with_too_many_objects_is_an_error() {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        assert_eq!(split(MAX_LIST_OBJECTS, encoding), Ok(MAX_LIST_OBJECTS));
        let error = split(MAX_LIST_OBJECTS + 1, encoding).unwrap_err();
        assert!(error.contains(TOO_MANY_OBJECTS), "{error}");
    }
}
