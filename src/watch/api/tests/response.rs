//! Tests of `response`.

use std::iter::repeat_with;

use http_body_util::StreamBody;
use hyper::body::Frame;
use tower::BoxError;

use super::*;

/// In real time, since virtual time passes only while nothing is ready.
#[tokio::test]
async fn compressed_data_without_content_do_not_extend_a_deadline() {
    const EMPTY_MEMBER: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0";
    let answer = |_: Request<Body>| {
        let began = Instant::now();
        let frames = repeat_with(|| Ok(Frame::data(Bytes::from_static(EMPTY_MEMBER))))
            .take_while(move |_: &Result<_, BoxError>| began.elapsed() < SHORT_BODY_TIMEOUT);
        let body = StreamBody::new(futures::stream::iter(frames));
        std::future::ready(Ok::<_, BoxError>(http::Response::new(body)))
    };
    let client = kube::Client::new(tower::service_fn(answer), "default");
    let sent = client.send(Request::new(Body::empty())).await;
    let body = sent.unwrap().into_body();
    let mut response = ApiResponse::new(body, Encoding::Json, true);
    let deadline = Instant::now() + Duration::from_millis(50);
    let piece = response.piece(deadline).await;
    assert!(matches!(piece, Err(ApiError::TimedOut(_))), "{piece:?}");
}
