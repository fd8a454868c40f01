//! What the page says of endpoints and health.

use std::time::{Duration, Instant};

use http_body_util::BodyExt;

use super::*;
use crate::health::NodeState;
use crate::net::IpFamily;

fn page() -> CheckPage {
    let health = Health::new(Duration::from_secs(30));
    CheckPage::new(ServiceName::new("ns1", "lb"), health)
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
