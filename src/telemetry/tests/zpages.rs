//! Tests of `zpages`.

use super::*;

/// Both pages, against the recorded ones of kube-proxy v1.37.2.
#[test]
fn statusz_matches_kube_proxy_except_for_go() {
    let started = "2026-11-21T02:47:15.9Z".parse().unwrap();
    let now = "2026-11-21T02:47:20.1Z".parse().unwrap();
    let upstream = include_str!("../../../tests/golden/upstream/statusz.txt");
    let go = format!("none, this is deltaproxy {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(statusz(started, now), upstream.replace("go1.26.8", &go));
}

#[test]
fn flagz_text_matches_kube_proxy() {
    let upstream = include_str!("../../../tests/golden/upstream/flagz.txt");
    let lines = upstream.lines().skip(3);
    let pairs = lines.map(|line| line.split_once(':').unwrap());
    let flags = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(flagz(&flags.collect()), upstream);
}
