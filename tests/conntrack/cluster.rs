//! The same in a cluster with an API server, where a stock kube-proxy can take our place:
//! `PROXY_UNDER_TEST=<kube-proxy> cargo test --test all conntrack::cluster`.

use serde_json::json;

use super::scene::{SECOND, ask, connect};
use crate::support::daemon::{Backend, Program};
use crate::support::lab::Lab;
use crate::support::rules::Family;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects};

#[test]
fn clients_in_a_cluster_move_on() {
    needs!(Cluster);
    let lab = Lab::new(Backend::Nft);
    let api = lab.control.api();
    let dns = objects::service(
        "dns",
        json!({
            "clusterIP": "10.96.0.53",
            "ports": [{"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 8080}],
        }),
    );
    let slice = |addresses: &[&str]| objects::slice(&dns, addresses);
    api.apply_all(&[dns.clone(), slice(&["10.4.0.11"])]);
    let _daemon = lab.start_daemon();
    let client = connect(&lab.client.netns, "10.96.0.53", 53);
    let is_answered_by = |server: &str| {
        let answered = ask(&client)?;
        ensure(answered == server, || format!("answered by {answered}"))
    };
    eventually(PATIENCE, || is_answered_by("a"));

    api.apply(&slice(&["10.4.0.12"]));
    lab.wait_until_gone(Family::V4, "10.4.0.11:8080");
    eventually(SECOND, || is_answered_by("b"));

    api.apply(&slice(&[]));
    lab.wait_until_gone(Family::V4, "10.4.0.12:8080");
    if Program::under_test().is_deltaproxy() {
        eventually(SECOND, || match ask(&client) {
            Err(why) if why.contains("refused") => Ok(()),
            other => Err(format!("{other:?}")),
        });
    } else {
        // Upstream leaves the flows of a Service without endpoints where they are.
        is_answered_by("b").unwrap();
    }
}
