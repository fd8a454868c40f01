//! Tests of `list`.

use super::*;

#[test]
fn a_list_may_reach_the_limit_of_bytes_and_objects() {
    let mut limit = ListLimit::new(Duration::from_secs(60));
    limit.add_bytes(MAX_LIST_BYTES - 1).unwrap();
    limit.add_bytes(1).unwrap();
    limit.add_objects(MAX_LIST_OBJECTS).unwrap();
    for (error, expected) in [
        (limit.add_bytes(1), "the list exceeds 512 MiB"),
        (limit.add_objects(1), "the list exceeds 1,000,000 objects"),
    ] {
        assert_eq!(error.unwrap_err().in_full(), expected);
    }
    limit.add_objects(0).unwrap();
}
