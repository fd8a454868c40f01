//! Tests of `list`.

use super::*;

#[test]
fn a_list_may_reach_the_limit_of_bytes() {
    let mut limit = ListLimit::new(Duration::from_secs(60));
    limit.add_bytes(MAX_LIST_BYTES - 1).unwrap();
    limit.add_bytes(1).unwrap();
    let error = limit.add_bytes(1).unwrap_err();
    assert_eq!(error.in_full(), "the list exceeds 512 MiB");
    limit.add_bytes(0).unwrap();
}
