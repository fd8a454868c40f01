//! Retry delays, URIs of requests, and the configuration of the client.

use std::time::Duration;

use tokio::time::Instant;

use super::super::build_client;
use super::super::resource;
use super::super::retry::{RetryBackoff, RetryDelay};
use super::super::{ApiClient, ApiOptions, ProxyEnvironment, Selector};

#[test]
fn delays_double_up_to_half_a_minute() {
    for (jitter, expected) in [
        (0.0, [800, 1600, 3200, 6400, 12_800, 15_000, 15_000]),
        (1.0, [1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]),
    ] {
        let now = Instant::now();
        let mut backoff = RetryBackoff::default();
        for milliseconds in expected {
            let delay = backoff.failed(RetryDelay::Backoff, now, jitter);
            assert_eq!(delay, Duration::from_millis(milliseconds));
        }
    }
}

/// Returns the delay after five failures, this many seconds without a failure, and another
/// failure.
fn delay_after_working(delay: RetryDelay, seconds: u64) -> Duration {
    let mut now = Instant::now();
    let mut backoff = RetryBackoff::default();
    for _ in 0..5 {
        backoff.failed(RetryDelay::Backoff, now, 0.0);
    }
    backoff.succeeded(now);
    now += Duration::from_secs(seconds);
    backoff.succeeded(now);
    backoff.failed(delay, now, 0.0)
}

#[test]
fn delays_start_over_after_half_a_minute_without_a_failure() {
    let (long, short) = (Duration::from_secs(15), Duration::from_millis(800));
    assert_eq!(delay_after_working(RetryDelay::Backoff, 29), long);
    assert_eq!(delay_after_working(RetryDelay::Backoff, 30), short);
    assert_eq!(delay_after_working(RetryDelay::ShortOnce, 0), short);
    // Without a success, time alone does not shorten the delay.
    let mut backoff = RetryBackoff::default();
    let now = Instant::now();
    backoff.failed(RetryDelay::Backoff, now, 0.0);
    let later = now + Duration::from_secs(3600);
    let delay = backoff.failed(RetryDelay::Backoff, later, 0.0);
    assert_eq!(delay, short * 2);
}

#[test]
fn only_the_first_expired_version_is_retried_soon() {
    let now = Instant::now();
    let mut backoff = RetryBackoff::default();
    let mut delays = Vec::new();
    for _ in 0..7 {
        backoff.succeeded(now);
        delays.push(backoff.failed(RetryDelay::ShortOnce, now, 0.0).as_millis());
    }
    assert_eq!(delays, [800, 800, 1600, 3200, 6400, 12_800, 15_000]);
}

#[test]
fn uris_of_lists_and_watches() {
    assert_eq!(
        resource::list_uri(&Selector::services(), 250, Some("a+b=")),
        "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name\
         &fieldSelector=spec.clusterIP%21%3DNone&limit=250&continue=a%2Bb%3D",
    );
    assert_eq!(
        resource::watch_uri(&Selector::slices(), None, Duration::from_secs(300)),
        "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=%21service.kubernetes.io%2Fheadless\
         &watch=true&allowWatchBookmarks=true&timeoutSeconds=300&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan",
    );
    assert_eq!(
        resource::watch_uri(&Selector::node("n-1"), Some("5"), Duration::from_secs(300)),
        "/api/v1/nodes?fieldSelector=metadata.name%3Dn-1\
         &watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=5",
    );
}

#[track_caller]
fn check_address(kubeconfig: Option<&str>, master: Option<&str>, expected: Option<&str>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig.unwrap_or_default()).unwrap();
    let path = kubeconfig.map(|_| file.path().to_owned());
    let options = ApiOptions {
        kubeconfigs: path.into_iter().collect(),
        master: master.map(str::to_owned),
        ..ApiOptions::default()
    };
    let result = runtime.block_on(build_client(&options, &ProxyEnvironment::default()));
    assert_eq!(result.as_ref().ok().map(ApiClient::address), expected);
}

#[test]
fn a_server_without_a_scheme_has_tls_if_the_kubeconfig_says_so() {
    const WITH_TLS: &str = "
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: '10.0.0.1:6443', insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret}}]
";
    check_address(Some(WITH_TLS), None, Some("https://10.0.0.1:6443/"));
    let master = Some("[fd00::1]:7");
    check_address(Some(WITH_TLS), master, Some("https://[fd00::1]:7/"));
    check_address(None, Some("10.0.0.3:8080"), Some("http://10.0.0.3:8080/"));
    check_address(None, Some("/no/address"), None);
    check_address(Some("current-context: y"), None, None);
}
