//! The page against the recorded reply of kube-proxy v1.37.2.

use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::health::{NodeState, recorded};
use crate::net::IpFamily;
use crate::telemetry::serve;

fn page() -> CheckPage {
    let health = Health::new(Duration::from_secs(30));
    CheckPage::new(ServiceName::new("ns1", "lb"), health)
}

#[tokio::test]
async fn the_reply_is_the_recorded_one() {
    let page = page();
    page.set_endpoints(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = serve(
        listener,
        |_| std::future::ready(page.answer()),
        stop.clone(),
    );
    let client = async {
        let expected = include_str!("../../../tests/golden/http/healthcheck-nodeport.http");
        for line in ["GET /", "POST /healthz", "PUT /any?thing"] {
            let reply = recorded::ask(address, line).await.unwrap();
            assert_eq!(recorded::alike(&reply), recorded::alike(expected), "{line}");
        }
        stop.cancel();
    };
    tokio::join!(server, client);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "any moment will do")]
async fn endpoints_and_health_both_count() {
    let (page, now) = (page(), Instant::now());
    page.health.update(|state| {
        state.queued(IpFamily::V6, now);
        // Whether the node stays is asked elsewhere.
        state.node(NodeState::Leaving);
    });
    let late = now + Duration::from_secs(60);
    for (endpoints, at, status, healthy) in [
        (0, now, 503, true),
        (3, now, 200, true),
        (3, late, 503, false),
        (0, late, 503, false),
    ] {
        page.set_endpoints(endpoints);
        let reply = page.answer_at(at);
        assert_eq!(reply.status(), status);
        assert_eq!(reply.headers()[WEIGHT], endpoints.to_string());
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["localEndpoints"], endpoints);
        assert_eq!(body["serviceProxyHealthy"], healthy);
    }
}
