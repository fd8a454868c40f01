//! Upstream's cases, one row each.
//!
//! Upstream: `pkg/proxy/topology_test.go`, `TestCategorizeEndpoints` (v1.37)

use super::*;

const CLUSTER: TrafficPolicy = TrafficPolicy::Cluster;
const LOCAL: TrafficPolicy = TrafficPolicy::Local;

/// Which endpoints, by the last part of their address, answer traffic under policy Cluster and
/// under policy Local, and whether any endpoint could answer at all.
#[track_caller]
fn check(
    endpoints: &[&str],
    (internal, external, reach): (TrafficPolicy, TrafficPolicy, Reach),
    zone: Option<&str>,
    expected: &str,
) {
    let endpoints: Vec<_> = endpoints.iter().map(|text| endpoint(text)).collect();
    let state = state(&[("s", 80, &endpoints)]);
    let service = service(internal, external, reach);
    let candidates = merge(&state, &service.ports[0]);
    let zone = zone.map(Into::into);
    let selection = select(candidates, &service, &service.ports[0], &Topology { zone });
    let names = |is_used: fn(&Candidate<'_>) -> bool| {
        let used = selection.candidates.iter().filter(|c| is_used(c));
        let names: Vec<_> = used
            .map(|c| {
                c.endpoint
                    .ip
                    .to_string()
                    .rsplit('.')
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        names.join(",")
    };
    let any = if selection.has_any { "any" } else { "none" };
    let shown = format!(
        "{any} cluster={} local={}",
        names(|c| c.in_cluster),
        names(|c| c.in_local)
    );
    assert_eq!(shown, expected);
    assert_eq!(
        selection.has_local,
        selection.candidates.iter().any(|c| c.in_local)
    );
    for candidate in &selection.candidates {
        assert_eq!(
            candidate.is_reachable(),
            candidate.in_cluster || candidate.in_local
        );
    }
}

const PLAIN: (TrafficPolicy, TrafficPolicy, Reach) = (CLUSTER, CLUSTER, Reach::Inside);

#[test]
fn without_hints_every_ready_endpoint_is_used() {
    check(&[], PLAIN, Some("a"), "none cluster= local=");
    check(
        &["10.0.0.1 ready", "10.0.0.2 ready"],
        PLAIN,
        Some("a"),
        "any cluster=1,2 local=",
    );
    check(
        &["10.0.0.1 ready", "10.0.0.2 unready"],
        PLAIN,
        Some("a"),
        "any cluster=1 local=",
    );
    check(
        &["10.0.0.1 unready"],
        PLAIN,
        Some("a"),
        "none cluster= local=",
    );
}

#[test]
fn zone_hints_count_if_all_ready_endpoints_have_them_and_one_means_here() {
    let hinted = [
        "10.0.0.1 ready zone:a",
        "10.0.0.2 ready zone:b",
        "10.0.0.3 ready zone:a zone:c",
    ];
    check(&hinted, PLAIN, Some("a"), "any cluster=1,3 local=");
    check(&hinted, PLAIN, Some("c"), "any cluster=3 local=");
    check(&hinted, PLAIN, Some("d"), "any cluster=1,2,3 local=");
    check(&hinted, PLAIN, Some(""), "any cluster=1,2,3 local=");
    check(&hinted, PLAIN, None, "any cluster=1,2,3 local=");
    let missing = ["10.0.0.1 ready zone:a", "10.0.0.2 ready"];
    check(&missing, PLAIN, Some("a"), "any cluster=1,2 local=");
    let unready = [
        "10.0.0.1 ready zone:a",
        "10.0.0.2 ready zone:b",
        "10.0.0.3 unready",
    ];
    check(&unready, PLAIN, Some("a"), "any cluster=1 local=");
    // The only one meant for this zone is not ready.
    let away = ["10.0.0.1 unready zone:a", "10.0.0.2 ready zone:b"];
    check(&away, PLAIN, Some("a"), "any cluster=2 local=");
}

#[test]
fn node_hints_come_before_zone_hints() {
    let here = ["10.0.0.1 ready node:here", "10.0.0.2 ready node:elsewhere"];
    check(&here, PLAIN, Some("a"), "any cluster=1 local=");
    check(&here, PLAIN, None, "any cluster=1 local=");
    let both = [
        "10.0.0.1 ready node:here zone:b",
        "10.0.0.2 ready node:elsewhere zone:a",
    ];
    check(&both, PLAIN, Some("a"), "any cluster=1 local=");
    let away = [
        "10.0.0.1 ready node:elsewhere zone:b",
        "10.0.0.2 ready node:elsewhere zone:a",
    ];
    check(&away, PLAIN, Some("a"), "any cluster=2 local=");
    let missing = ["10.0.0.1 ready node:here zone:b", "10.0.0.2 ready zone:a"];
    check(&missing, PLAIN, Some("a"), "any cluster=2 local=");
    let none = ["10.0.0.1 ready node:here", "10.0.0.2 ready zone:a"];
    check(&none, PLAIN, Some("a"), "any cluster=1,2 local=");
}

#[test]
fn terminating_endpoints_serve_if_none_is_ready() {
    let mixed = ["10.0.0.1 ready", "10.0.0.2 serving terminating"];
    check(&mixed, PLAIN, None, "any cluster=1 local=");
    let terminating = [
        "10.0.0.1 serving terminating",
        "10.0.0.2 terminating",
        "10.0.0.3 serving",
        "10.0.0.4 unready",
        "10.0.0.5 serving terminating zone:b",
    ];
    check(&terminating, PLAIN, Some("a"), "any cluster=1,5 local=");
    check(
        &["10.0.0.1 terminating"],
        PLAIN,
        None,
        "none cluster= local=",
    );
    check(&["10.0.0.1 serving"], PLAIN, None, "none cluster= local=");
    check(
        &["10.0.0.1 ready terminating"],
        PLAIN,
        None,
        "any cluster=1 local=",
    );
}

const SPREAD: [&str; 3] = [
    "10.0.0.1 ready here",
    "10.0.0.2 ready",
    "10.0.0.3 unready here",
];

#[test]
fn policies_decide_which_lists_there_are() {
    let rows = [
        (CLUSTER, CLUSTER, Reach::Inside, "any cluster=1,2 local="),
        (CLUSTER, LOCAL, Reach::Inside, "any cluster=1,2 local="),
        (CLUSTER, CLUSTER, Reach::Outside, "any cluster=1,2 local="),
        (CLUSTER, LOCAL, Reach::Outside, "any cluster=1,2 local=1"),
        (LOCAL, CLUSTER, Reach::Inside, "any cluster= local=1"),
        (LOCAL, LOCAL, Reach::Inside, "any cluster= local=1"),
        (LOCAL, CLUSTER, Reach::Outside, "any cluster=1,2 local=1"),
        (LOCAL, LOCAL, Reach::Outside, "any cluster=1,2 local=1"),
    ];
    for (internal, external, reach, expected) in rows {
        check(&SPREAD, (internal, external, reach), Some("a"), expected);
    }
}

#[test]
fn policy_local_knows_when_others_could_answer() {
    let both = (LOCAL, LOCAL, Reach::Outside);
    let inside = (LOCAL, CLUSTER, Reach::Inside);
    let outside = (CLUSTER, LOCAL, Reach::Outside);
    let away = ["10.0.0.1 ready", "10.0.0.2 ready"];
    check(&away, inside, None, "any cluster= local=");
    check(&away, outside, None, "any cluster=1,2 local=");
    check(&["10.0.0.1 unready"], inside, None, "none cluster= local=");
    check(
        &["10.0.0.1 serving terminating"],
        inside,
        None,
        "any cluster= local=",
    );
    check(
        &["10.0.0.1 serving terminating"],
        both,
        None,
        "any cluster=1 local=",
    );
    check(
        &["10.0.0.1 terminating here"],
        both,
        None,
        "none cluster= local=",
    );
}

#[test]
fn policy_local_falls_back_to_the_terminating_of_this_node_alone() {
    let outside = (CLUSTER, LOCAL, Reach::Outside);
    let fallback = ["10.0.0.1 serving terminating here", "10.0.0.2 ready"];
    check(&fallback, outside, None, "any cluster=2 local=1");
    let not_needed = ["10.0.0.1 serving terminating here", "10.0.0.2 ready here"];
    check(&not_needed, outside, None, "any cluster=2 local=2");
    let all = [
        "10.0.0.1 serving terminating here",
        "10.0.0.2 serving terminating",
    ];
    check(&all, outside, None, "any cluster=1,2 local=1");
}

#[test]
fn hints_do_not_apply_to_policy_local() {
    let outside = (CLUSTER, LOCAL, Reach::Outside);
    let away = ["10.0.0.1 ready here zone:b", "10.0.0.2 ready zone:a"];
    check(&away, outside, Some("a"), "any cluster=2 local=1");
    let node = [
        "10.0.0.1 ready here node:elsewhere",
        "10.0.0.2 ready node:here",
    ];
    check(&node, outside, Some("a"), "any cluster=2 local=1");
    check(
        &away,
        (LOCAL, CLUSTER, Reach::Inside),
        Some("a"),
        "any cluster= local=1",
    );
}

/// Both lists at once, where neither holds the other.
#[test]
fn local_endpoints_join_those_that_hints_choose() {
    let hinted = [
        "10.0.0.1 ready here zone:a",
        "10.0.0.2 ready here zone:b",
        "10.0.0.3 ready zone:c",
        "10.0.0.4 ready zone:a",
    ];
    for (internal, external) in [(CLUSTER, LOCAL), (LOCAL, CLUSTER), (LOCAL, LOCAL)] {
        let policies = (internal, external, Reach::Outside);
        check(&hinted, policies, Some("a"), "any cluster=1,4 local=1,2");
    }
    let nodes = [
        "10.0.0.1 ready zone:a node:here",
        "10.0.0.2 ready zone:b node:elsewhere",
        "10.0.0.3 ready zone:a node:elsewhere",
    ];
    check(&nodes, PLAIN, Some("a"), "any cluster=1 local=");
    let unhinted = [nodes[0], "10.0.0.2 ready", nodes[2]];
    check(&unhinted, PLAIN, Some("a"), "any cluster=1,2,3 local=");
    let elsewhere = ["10.0.0.1 ready zone:a node:elsewhere", nodes[1], nodes[2]];
    check(&elsewhere, PLAIN, Some("a"), "any cluster=1,3 local=");
}

#[test]
fn policy_local_takes_what_is_here_and_no_more() {
    let inside = (LOCAL, CLUSTER, Reach::Inside);
    check(&[], inside, None, "none cluster= local=");
    let here = ["10.0.0.1 ready here", "10.0.0.2 ready here"];
    check(&here, inside, None, "any cluster= local=1,2");
    let (both, outside) = (
        (LOCAL, LOCAL, Reach::Outside),
        (CLUSTER, LOCAL, Reach::Outside),
    );
    let away = ["10.0.0.1 ready", "10.0.0.2 ready"];
    check(&away, both, None, "any cluster=1,2 local=");
    let leaving = [
        "10.0.0.1 ready",
        "10.0.0.2 unready here",
        "10.0.0.3 serving terminating here",
        "10.0.0.4 serving terminating",
    ];
    check(&leaving, outside, None, "any cluster=1 local=3");
}
