//! The choice once more, from the description of upstream's and not from the code, over every
//! combination of conditions that a few endpoints can have.
//!
//! It is slow and written in sets, as the description is, so that the two have no line in common.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any};
use proptest::{prop_oneof, proptest};

use super::*;

#[derive(Debug, PartialEq, Eq)]
struct Choice {
    cluster: BTreeSet<usize>,
    local: BTreeSet<usize>,
    reachable: BTreeSet<usize>,
    has_any: bool,
}

/// Upstream: pkg/proxy/topology.go, `CategorizeEndpoints`, by its comments (v1.37)
fn reference(endpoints: &[Endpoint], service: &Service, zone: Option<&str>) -> Choice {
    let those = |wanted: &dyn Fn(&Endpoint) -> bool| -> BTreeSet<usize> {
        let numbered = endpoints.iter().enumerate();
        numbered
            .filter(|(_, e)| wanted(e))
            .map(|(n, _)| n)
            .collect()
    };
    let ready = those(&|e| e.is_ready);
    let terminating = those(&|e| e.is_serving && e.is_terminating);
    let here = those(&|e| e.is_local);
    let is_outside = service.ports[0].node_port.is_some();
    let uses_cluster = service.internal_policy == TrafficPolicy::Cluster || is_outside;
    let uses_local = service.internal_policy == TrafficPolicy::Local
        || (service.external_policy == TrafficPolicy::Local && is_outside);

    let mut cluster = BTreeSet::new();
    if uses_cluster {
        let on_node = those(&|e| e.node_hint == NodeHint::Here);
        let in_zone = those(&|e| e.zone_hints.iter().any(|hint| Some(&**hint) == zone));
        let with_node_hint = those(&|e| e.node_hint != NodeHint::Absent);
        let with_zone_hint = those(&|e| !e.zone_hints.is_empty());
        cluster = if ready.is_subset(&with_node_hint) && !ready.is_disjoint(&on_node) {
            &ready & &on_node
        } else if ready.is_subset(&with_zone_hint) && !ready.is_disjoint(&in_zone) {
            &ready & &in_zone
        } else {
            ready.clone()
        };
        if cluster.is_empty() {
            cluster = terminating.clone();
        }
    }
    let mut local = BTreeSet::new();
    if uses_local {
        local = &ready & &here;
        if local.is_empty() {
            local = &terminating & &here;
        }
    }
    let has_any = if uses_local {
        !(ready.is_empty() && terminating.is_empty())
    } else {
        !cluster.is_empty()
    };
    let reachable = &cluster | &local;
    Choice {
        cluster,
        local,
        reachable,
        has_any,
    }
}

fn any_endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let node_hint = prop_oneof![
        Just(NodeHint::Absent),
        Just(NodeHint::Here),
        Just(NodeHint::Elsewhere)
    ];
    let zones = prop_oneof![
        Just(vec![]),
        Just(vec!["a"]),
        Just(vec!["b"]),
        Just(vec!["b", "a"]),
    ];
    let one = (any::<[bool; 4]>(), node_hint, zones);
    vec(one, 0..5).prop_map(|all| {
        let numbered = (0_u8..).zip(all);
        numbered
            .map(
                |(n, ([is_ready, is_serving, is_terminating, is_local], node_hint, zones))| {
                    Endpoint {
                        ip: std::net::Ipv4Addr::new(10, 0, 0, n).into(),
                        is_ready,
                        is_serving,
                        is_terminating,
                        is_local,
                        node_hint,
                        zone_hints: zones.into_iter().map(Arc::from).collect(),
                    }
                },
            )
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_choice_is_the_one_described(
        endpoints in any_endpoints(),
        [is_internal_local, is_external_local, is_outside]: [bool; 3],
        zone in prop_oneof![Just(None), Just(Some("a")), Just(Some("c"))],
    ) {
        let policy =
            |is_local| if is_local { TrafficPolicy::Local } else { TrafficPolicy::Cluster };
        let reach = if is_outside { Reach::Outside } else { Reach::Inside };
        let service = service(policy(is_internal_local), policy(is_external_local), reach);
        let state = state(&[("s", 80, &endpoints)]);
        let topology = Topology { zone: zone.map(Into::into) };
        let chosen =
            select(merge(&state, &service.ports[0]), &service, &service.ports[0], &topology);
        let numbers = |is_used: fn(&Candidate<'_>) -> bool| {
            let all = chosen.candidates.iter().enumerate();
            all.filter(|(_, c)| is_used(c)).map(|(n, _)| n).collect()
        };
        let ours = Choice {
            cluster: numbers(|c| c.in_cluster),
            local: numbers(|c| c.in_local),
            reachable: numbers(|c| c.in_cluster || c.in_local),
            has_any: chosen.has_any,
        };
        assert_eq!(ours, reference(&endpoints, &service, zone));
    }
}
