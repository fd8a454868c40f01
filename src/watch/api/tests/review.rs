//! Clock of the API server.

use std::time::{Duration, SystemTime};

use super::time;
use http::HeaderValue;

#[test]
fn the_date_of_a_response_is_read() {
    let date = HeaderValue::from_static("Sat, 28 Nov 2026 08:41:20 GMT");
    let seconds = 1_795_855_280;
    assert_eq!(
        time(&date),
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    );
    assert_eq!(time(&HeaderValue::from_static("yesterday")), None);
    assert_eq!(time(&HeaderValue::from_static("")), None);
}
