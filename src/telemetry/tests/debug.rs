//! Pages below `/debug/`, with and without profiling.

use http_body_util::BodyExt;

use super::*;
use crate::telemetry::log::tests::silent;

async fn request(
    debugging: Option<&LogLevel>,
    method: Method,
    path: &str,
    body: &'static str,
) -> (u16, String) {
    let builder = Request::builder().method(method).uri(path);
    let reply = debug_page(debugging, &builder.body(body.into()).unwrap());
    let (head, body) = reply.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    (head.status.as_u16(), body)
}

#[tokio::test]
async fn put_sets_the_log_level() {
    let (_log, level) = silent();
    let on = Some(&level);
    let put = async |body| request(on, Method::PUT, "/debug/flags/v", body).await;
    let done = "successfully set klog.logging.verbosity to 4\n";
    assert_eq!(put("4").await, (200, done.to_owned()));
    assert_eq!(put("100000").await.0, 200);
    let wrong = "failed set klog.logging.verbosity \"all\": not a valid integer\n";
    assert_eq!(put("all").await, (400, wrong.to_owned()));
    let (status, text) = request(on, Method::GET, "/debug/flags/v", "").await;
    assert_eq!(status, 406);
    assert!(text.starts_with("unsupported http method\n"), "{text}");
}

#[tokio::test]
async fn the_level_of_a_closed_log_cannot_be_set() {
    let (log, level) = silent();
    drop(log);
    let on = Some(&level);
    assert_eq!(request(on, Method::PUT, "/debug/flags/v", "4").await.0, 500);
}

#[tokio::test]
async fn other_debug_pages_do_not_exist() {
    let (_log, level) = silent();
    for path in ["/debug/flags", "/debug/pprof/heap", "/debug/"] {
        assert_eq!(request(Some(&level), Method::GET, path, "").await.0, 404);
    }
    let (status, _) = request(None, Method::PUT, "/debug/flags/v", "4").await;
    assert_eq!(status, 404);
}
