//! Both pages, against the recorded ones of kube-proxy v1.37.2.

use http::HeaderValue;
use http_body_util::BodyExt;

use super::*;

async fn received(reply: Reply) -> (StatusCode, HeaderMap, String) {
    let (head, body) = reply.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    (head.status, head.headers, body)
}

fn accepting(accept: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))])
}

async fn status(accept: &'static str) -> (StatusCode, HeaderMap, String) {
    let started = "2026-11-21T02:47:15.9Z".parse().unwrap();
    let now = "2026-11-21T02:47:20.1Z".parse().unwrap();
    received(statusz(&accepting(accept), started, now)).await
}

#[tokio::test]
async fn statusz_matches_kube_proxy_except_for_go() {
    let (_, headers, text) = status("*/*").await;
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    let upstream = include_str!("../../../../tests/golden/upstream/statusz.txt");
    let go = format!("none, this is deltaproxy {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(text, upstream.replace("go1.26.8", &go));
}

#[tokio::test]
async fn flagz_text_matches_kube_proxy() {
    let upstream = include_str!("../../../../tests/golden/upstream/flagz.txt");
    let pairs = upstream
        .lines()
        .skip(3)
        .map(|line| line.split_once(':').unwrap());
    let flags = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (_, _, text) = received(flagz(&HeaderMap::new(), &flags.collect())).await;
    assert_eq!(text, upstream);
}

#[tokio::test]
async fn objects_are_served_as_json_and_yaml() {
    let (_, headers, json) = status("application/json;v=v1beta1;g=config.k8s.io;as=Statusz").await;
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(
        json,
        concat!(
            r#"{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kube-proxy"},"#,
            r#""startTime":"2026-11-21T02:47:15Z","uptimeSeconds":5,"goVersion":"","#,
            r#""binaryVersion":"1.37.2","emulationVersion":"1.37","#,
            r#""paths":["/configz","/flagz","/healthz","/metrics","/proxyMode"]}"#,
            "\n"
        )
    );
    let accept = accepting("application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz");
    let flags = BTreeMap::from([("v".to_owned(), "2".to_owned())]);
    let (_, headers, yaml) = received(flagz(&accept, &flags)).await;
    assert_eq!(headers["content-type"], "application/yaml");
    assert!(
        yaml.starts_with("kind: Flagz\napiVersion: config.k8s.io/v1beta1\n"),
        "{yaml}"
    );
    assert!(yaml.contains("flags:\n  v: "), "{yaml}");
}

#[tokio::test]
async fn json_without_kind_is_not_acceptable() {
    let (code, headers, body) = status("application/json").await;
    assert_eq!(code, StatusCode::NOT_ACCEPTABLE);
    assert_eq!(headers["content-type"], "application/json");
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["code"], 406);
    let message = "only the following media types are accepted: \
                   application/json, application/yaml, text/plain";
    assert_eq!(status["message"], message);
}

#[track_caller]
fn check(accept: &str, expected: Option<PageFormat>) {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, accept.parse().unwrap());
    assert_eq!(accepted_format(&headers, "Flagz"), expected, "{accept}");
}

#[test]
fn an_object_is_served_if_kind_group_and_version_are_named() {
    assert_eq!(
        accepted_format(&HeaderMap::new(), "Flagz"),
        Some(PageFormat::Text)
    );
    for text in [
        "",
        "*/*",
        "text/plain;charset=utf-8",
        "text/html, */*;q=0.1",
    ] {
        check(text, Some(PageFormat::Text));
    }
    check(
        "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
        Some(PageFormat::Json),
    );
    check(
        "application/json, application/yaml; as=Flagz; g=config.k8s.io; v=v1beta1",
        Some(PageFormat::Yaml),
    );
    for unacceptable in [
        "application/json",
        "text/html",
        "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
        "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz",
        "application/json;v=v1beta1;as=Flagz",
    ] {
        check(unacceptable, None);
    }
}
