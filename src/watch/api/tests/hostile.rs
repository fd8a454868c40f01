//! Arbitrary bytes from a server.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::super::encoding::ReceivedObject;
use super::super::encoding::{self, EncodedObject, Encoding};
use super::super::list::Page;
use super::super::response::{self, Status};
use super::super::watch::WatchEvent;
use crate::hostile::{bytes, cases, mutated, mutated_text, text};
use crate::ingest::{self, EndpointSliceObject, Interner, NodeObject, ServiceObject};

/// Events and lists in both encodings, written by the API's own encoder.
fn samples() -> Vec<Vec<u8>> {
    let mut unread = BytesMut::from(&include_bytes!("../../../../tests/wire/watch.protobuf")[..]);
    let mut samples = Vec::new();
    while let Ok(Some(message)) = encoding::take_frame(&mut unread) {
        samples.push(message.to_vec());
    }
    let objects: [&[u8]; 3] = [
        include_bytes!("../../../../tests/wire/service.json"),
        include_bytes!("../../../../tests/wire/endpoint-slice.json"),
        include_bytes!("../../../../tests/wire/node.json"),
    ];
    for object in objects {
        samples.push([b"{\"type\":\"ADDED\",\"object\":", object, b"}"].concat());
        samples.push(
            [
                b"{\"metadata\":{\"continue\":\"x\"},\"items\":[",
                object,
                b"]}",
            ]
            .concat(),
        );
        samples.push(object.to_vec());
    }
    samples.push(include_bytes!("../../../../tests/wire/service-list.protobuf").to_vec());
    samples.push(include_bytes!("../../../../tests/wire/service.protobuf").to_vec());
    samples.push(include_bytes!("../../../../tests/wire/endpoint-slice.protobuf").to_vec());
    samples.push(include_bytes!("../../../../tests/wire/node.protobuf").to_vec());
    samples
}

const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Protobuf];

/// Ingests an object if it can be decoded. What is noted has no control characters.
fn ingested(encoded: &EncodedObject<'_>) {
    let mut interner = Interner::default();
    let mut diagnostics = Vec::new();
    if let Ok(object) = ReceivedObject::<ServiceObject>::decode(encoded).decoded {
        let (_, _, noted) = ingest::service(&object, &mut interner);
        diagnostics.extend(noted);
    }
    if let Ok(object) = ReceivedObject::<EndpointSliceObject>::decode(encoded).decoded {
        diagnostics.extend(ingest::endpoint_slice(&object, "here", &mut interner).diagnostics);
    }
    if let Ok(object) = ReceivedObject::<NodeObject>::decode(encoded).decoded {
        let (_, noted) = ingest::node(&object);
        diagnostics.extend(noted);
    }
    for diagnostic in diagnostics {
        assert!(
            !diagnostic.to_string().contains(char::is_control),
            "{diagnostic}"
        );
    }
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn any_message_is_an_event_or_an_error(message in mutated(samples())) {
        let message = Bytes::from(message);
        for encoding in ENCODINGS {
            let _ = WatchEvent::<ServiceObject>::decode(encoding, &message);
            let _ = WatchEvent::<EndpointSliceObject>::decode(encoding, &message);
            let _ = WatchEvent::<NodeObject>::decode(encoding, &message);
        }
        let _ = encoding::open_envelope(message);
    }

    #[test]
    fn any_body_is_a_list_or_an_error(body in mutated(samples())) {
        for encoding in ENCODINGS {
            let page = Page::new(body.clone(), encoding);
            for object in page.split::<ServiceObject>().iter().flat_map(|page| &page.objects) {
                ingested(object);
            }
        }
    }

    #[test]
    fn any_object_is_ingested_or_named(object in mutated(samples())) {
        ingested(&EncodedObject::Protobuf(Bytes::from(object.clone())));
        if let Ok(text) = serde_json::from_slice(&object) {
            ingested(&EncodedObject::Json(text));
            let problem = ReceivedObject::<ServiceObject>::decode(&EncodedObject::Json(text)).decoded.err();
            let shown = problem.map(|problem| problem.to_string());
            prop_assert!(!shown.unwrap_or_default().contains(char::is_control));
        }
    }

    /// A decoded message is encoded and decoded as the same.
    #[test]
    fn encoding_a_decoded_message_loses_nothing(object in mutated(samples())) {
        if let Ok(object) = ServiceObject::decode(&*object) {
            prop_assert_eq!(ServiceObject::decode(&*object.encode_to_vec()), Ok(object));
        }
        if let Ok(object) = EndpointSliceObject::decode(&*object) {
            prop_assert_eq!(EndpointSliceObject::decode(&*object.encode_to_vec()), Ok(object));
        }
    }

    /// The lines of a stream are the same for any pieces.
    #[test]
    fn lines_do_not_depend_on_the_pieces(pieces in vec(bytes(), 0..8)) {
        let (mut unread, mut searched) = (BytesMut::new(), 0);
        let mut lines = Vec::new();
        for piece in &pieces {
            unread.extend_from_slice(piece);
            while let Some(line) = encoding::take_line(&mut unread, &mut searched).unwrap() {
                lines.push(line);
            }
        }
        let whole = pieces.concat();
        let ends = memchr::memchr_iter(b'\n', &whole).count();
        prop_assert_eq!(lines.len(), ends);
        lines.push(unread.clone().freeze());
        prop_assert_eq!(lines.concat(), whole);
        let _ = encoding::take_last_line(&mut unread);
    }

    #[test]
    fn any_error_of_a_server_is_short(code: u16, body in mutated(samples())) {
        for encoding in ENCODINGS {
            let error = Status::of_body(code, encoding, body.clone()).into_error(None);
            prop_assert!(error.to_string().chars().count() < 100 + 300 + 400);
        }
    }

    #[test]
    fn any_header_is_parsed_or_ignored(value in mutated_text(&["120", "application/json", "Fri, 31 Dec 1999 23:59:59 GMT"]), types in text()) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.insert("retry-after", value.clone());
            headers.insert("content-type", value);
        }
        let pause = response::retry_after(&headers).unwrap_or_default();
        prop_assert!(pause.as_secs() <= 60);
        let _ = (Encoding::of(&headers), Encoding::preferred(&types));
    }
}
