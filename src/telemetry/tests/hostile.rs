//! Arbitrary requests to the pages of the metrics port.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode};
use proptest::prelude::*;
use proptest::sample::select;

use super::MetricsPages;
use super::tests::pages;
use crate::hostile::{bytes, cases, mutated_text};

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn any_request_is_answered(
        path in mutated_text(&["/metrics", "/metrics/slis", "/healthz?exclude=ping&verbose", "/flagz", "/statusz", "/debug/pprof/profile?seconds=1", "/configz"]),
        method in select(vec![Method::GET, Method::PUT, Method::POST, Method::HEAD]),
        accept in mutated_text(&["application/json;v=v1beta1;g=config.k8s.io;as=Flagz", "text/plain;q=0.3, */*"]),
        body in bytes(),
    ) {
        thread_local!(static PAGES: MetricsPages = pages());
        let mut request = Request::builder().method(method).uri(path);
        if let Ok(accept) = HeaderValue::from_bytes(accept.as_bytes()) {
            request = request.header("accept", accept);
        }
        // The server rejects invalid paths earlier.
        if let Ok(request) = request.body(Bytes::from(body)) {
            let status = PAGES.with(|pages| pages.answer(&request)).status();
            let known = [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::NOT_ACCEPTABLE, StatusCode::METHOD_NOT_ALLOWED, StatusCode::INTERNAL_SERVER_ERROR];
            prop_assert!(known.contains(&status), "{} {}", request.uri(), status);
        }
    }
}
