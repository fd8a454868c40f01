//! Where we differ from kube-proxy on purpose: each difference seen, and seen to be the only one.
//!
//! `deploy/conformance.md` lists them with their reasons. Random histories keep away from these or
//! end them (by starting kube-proxy anew); nothing is masked in the comparison.

use http::Request;
use serde_json::json;

use super::features;
use super::features::objects::{apply, endpoints, ready, service, slice, web, with_ingress};
use super::node::Node;
use super::random::{crowd_service, crowd_slice};
use super::stage::{Effect, Op, Size, Stage};
use super::support::needs;
use super::support::objects;
use super::support::rules::Family;
use super::support::wait::{PATIENCE, ensure, eventually};
use super::variant::{NODE_ADDRESSES, VARIANTS, Variant};

/// Name of a difference, the variant that shows it, and how.
type Difference = (&'static str, &'static Variant, fn(&mut Stage));

/// Makes the list of differences from the functions of `seen`.
macro_rules! differences {
    ($($name:ident in $variant:ident,)*) => {
        const ALL: &[Difference] = &[$((stringify!($name), $variant, seen::$name)),*];
    };
}

differences! {
    a_frontend_is_one_services_alone in PLAIN,
    a_relabelled_slice_leaves_its_old_service in PLAIN,
    an_annotation_rewrites_nothing in PLAIN,
    a_lost_jump_is_repaired in PLAIN,
    a_damaged_shared_chain_is_repaired_at_once in PLAIN,
    chains_of_older_releases_are_removed in PLAIN,
    a_stale_chain_in_use_by_others_blocks_nothing in PLAIN,
    stale_chains_go_at_once_in_large_clusters in PLAIN,
    a_new_pod_network_is_taken_over in NODE_CIDR,
    a_new_node_address_is_taken_over in PLAIN,
    primary_without_an_address_is_nowhere in PRIMARY,
}

/// One after the other, in an empty cluster and between new nodes each.
#[test]
fn every_difference_is_the_only_one() {
    needs!(Cluster);
    let mut stage = Stage::new(&NAMESPACES);
    for &(name, variant, see) in ALL {
        eprintln!("{name}");
        clear(&stage);
        stage.cast(&[variant]);
        equal(&stage.step(&[], Size::Small));
        see(&mut stage);
    }
}

/// Deletes what a difference has left in the cluster.
fn clear(stage: &Stage) {
    for namespace in NAMESPACES {
        for path in [
            "/api/v1/namespaces/NAME/services",
            "/apis/discovery.k8s.io/v1/namespaces/NAME/endpointslices",
        ] {
            let request = Request::delete(path.replace("NAME", namespace));
            let answers = stage.api().send(vec![request.body(Vec::new()).unwrap()]);
            assert!(answers[0].is_ok(), "{answers:?}");
        }
    }
    let [v4, v6] = NODE_ADDRESSES;
    let node = objects::node(v4, v6);
    stage.api().delete(&node);
    stage.api().apply(&node);
}

#[test]
fn the_document_lists_every_difference() {
    let document = include_str!("../../deploy/conformance.md");
    let listed: Vec<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("- `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let names: Vec<&str> = ALL.iter().map(|(name, ..)| *name).collect();
    assert_eq!(listed, names);
}

const NAMESPACES: [&str; 2] = [features::NAMESPACE, "north"];
const PLAIN: &Variant = &VARIANTS[0];
const NODE_CIDR: &Variant = &VARIANTS[4];
const PRIMARY: &Variant = &VARIANTS[10];

mod seen {
    use super::*;

    pub(super) fn a_relabelled_slice_leaves_its_old_service(stage: &mut Stage) {
        let slice_of = |service| apply(slice("web-1", service, "IPv4", &[ready("10.4.1.1")]));
        equal(&stage.step(
            &[
                apply(service("a", json!({}))),
                apply(service("b", json!({}))),
                slice_of("a"),
            ],
            Size::Small,
        ));
        let effect = stage.step(&[slice_of("b")], Size::Small);
        assert!(effect.differences.contains("features/a"), "{effect:?}");
        let [upstream, ours] = v4(stage);
        assert!(upstream.contains("features/a:http -> 10.4.1.1:8080"));
        assert!(!ours.contains("features/a:http -> 10.4.1.1:8080"));
        equal(&stage.step(&[Op::RestartUpstream], Size::Small));
    }

    pub(super) fn a_frontend_is_one_services_alone(stage: &mut Stage) {
        const SHARED: &str = "203.0.113.77";
        let shares = json!({"externalIPs": [SHARED]});
        let slice_of = |of: &str, ip| apply(slice(&format!("{of}-1"), of, "IPv4", &[ready(ip)]));
        // Whichever comes first, the one that is first by name has it.
        for (first, last) in [("a", "b"), ("b", "a")] {
            equal(&stage.step(
                &[
                    apply(service(first, shares.clone())),
                    slice_of(first, "10.4.1.1"),
                ],
                Size::Small,
            ));
            let effect = stage.step(
                &[
                    apply(service(last, shares.clone())),
                    slice_of(last, "10.4.1.2"),
                ],
                Size::Small,
            );
            assert!(effect.differences.contains(SHARED), "{effect:?}");
            let [upstream, ours] = v4(stage);
            let rule_of = |of: &str| format!("\"features/{of}:http external IP\"");
            assert!(upstream.contains(&rule_of("a")) && upstream.contains(&rule_of("b")));
            assert!(ours.contains(&rule_of("a")) && !ours.contains(&rule_of("b")));
            equal(&stage.step(&[apply(service("b", json!({})))], Size::Small));
            let delete = |name| Op::Delete(service(name, json!({})));
            equal(&stage.step(&[delete("a"), delete("b")], Size::Small));
        }
    }

    pub(super) fn an_annotation_rewrites_nothing(stage: &mut Stage) {
        let annotated = || {
            let mut object = slice("web-1", "web", "IPv4", &[ready("10.4.1.1")]);
            object["metadata"]["annotations"] = json!({"example/note": "new"});
            apply(object)
        };
        equal(&stage.step(
            &[web(json!({})), endpoints(&[ready("10.4.1.1")])],
            Size::Small,
        ));
        equal(&stage.step(&crowd(), Size::Large));
        let effect = stage.step(&[annotated()], Size::Large);
        // The comments, and nothing but the comments.
        let [upstream, ours] = v4(stage);
        let comment = "-m comment --comment \"features/web:http -> 10.4.1.1:8080\" ";
        assert!(
            ours.contains(comment) && !upstream.contains(comment),
            "{effect:?}"
        );
        equal(&stage.step(&[Op::Zone(Some("zone-b"))], Size::Large));
    }

    pub(super) fn a_lost_jump_is_repaired(stage: &mut Stage) {
        equal(&stage.step(&[web(json!({}))], Size::Small));
        let has_jump = |node: &Node| node.saved(Family::V4).contains("-A PREROUTING");
        for node in &stage.pairs()[0] {
            assert!(has_jump(node));
            node.iptables("-t nat -F PREROUTING");
        }
        eventually(PATIENCE, || {
            ensure(has_jump(&stage.pairs()[0][1]), || "not repaired".to_owned())
        });
        assert!(!has_jump(&stage.pairs()[0][0]));
        // A full sync of kube-proxy repairs it, too.
        equal(&stage.step(&[Op::Zone(Some("zone-b"))], Size::Small));
    }

    pub(super) fn a_damaged_shared_chain_is_repaired_at_once(stage: &mut Stage) {
        let node_port = json!({"type": "NodePort", "ports": [
            {"name": "http", "port": 80, "nodePort": 30_080},
        ]});
        let ops = [web(node_port), endpoints(&[ready("10.4.1.1")])];
        equal(&stage.step(&ops, Size::Small));
        for node in &stage.pairs()[0] {
            node.iptables("-t nat -F KUBE-NODEPORTS");
        }
        eventually(PATIENCE, || {
            let [_, ours] = v4(stage);
            ensure(ours.contains("--dport 30080"), || ours)
        });
        let [upstream, _] = v4(stage);
        assert!(!upstream.contains("--dport 30080"), "{upstream}");
        // Any change makes kube-proxy write all shared chains anew.
        equal(&stage.step(&[apply(service("other", json!({})))], Size::Small));
    }

    pub(super) fn chains_of_older_releases_are_removed(stage: &mut Stage) {
        const OLD: &str = "KUBE-XLB-AAAAAAAAAAAAAAAA";
        for node in &stage.pairs()[0] {
            node.iptables(&format!("-t nat -N {OLD}"));
        }
        let restart = [Op::RestartUpstream, Op::RestartOurs];
        let effect = stage.step(&restart, Size::Small);
        assert!(effect.differences.contains(OLD), "{effect:?}");
        let [upstream, ours] = v4(stage);
        assert!(upstream.contains(OLD) && !ours.contains(OLD));
    }

    pub(super) fn a_stale_chain_in_use_by_others_blocks_nothing(stage: &mut Stage) {
        const STALE: &str = "KUBE-SVC-AAAAAAAAAAAAAAAA";
        for node in &stage.pairs()[0] {
            node.iptables(&format!("-t nat -N {STALE}"));
            node.iptables("-t nat -N NEIGHBOUR");
            node.iptables(&format!("-t nat -A NEIGHBOUR -j {STALE}"));
        }
        stage.prepare(&[Op::RestartUpstream, Op::RestartOurs]);
        stage.prepare(&[web(json!({})), endpoints(&[ready("10.4.1.1")])]);
        let [upstream, ours] = &mut stage.pairs()[0];
        let sign = ["--to-destination 10.4.1.1:8080".to_owned()];
        eventually(PATIENCE, || ours.shows(Family::V4, &sign));
        let failures = "kubeproxy_sync_proxy_rules_iptables_restore_failures_total";
        eventually(PATIENCE, || {
            ensure(upstream.metric(failures) > 0, || "no failure".to_owned())
        });
        assert!(upstream.shows(Family::V4, &sign).is_err());
        // Without the neighbour they agree.
        for node in &stage.pairs()[0] {
            node.iptables("-t nat -F NEIGHBOUR");
            node.iptables("-t nat -X NEIGHBOUR");
        }
        equal(&stage.step(&[Op::Zone(Some("zone-b"))], Size::Small));
    }

    pub(super) fn stale_chains_go_at_once_in_large_clusters(stage: &mut Stage) {
        let two = [ready("10.4.1.1"), ready("10.4.1.2")];
        equal(&stage.step(&[web(json!({})), endpoints(&two)], Size::Small));
        equal(&stage.step(&crowd(), Size::Large));
        // Without the wait that kube-proxy needs.
        stage.step(&[endpoints(&two[..1])], Size::Small);
        let [_, ours] = v4(stage);
        assert!(ours.contains("--to-destination 10.4.1.1:8080"));
        assert!(!ours.contains("--to-destination 10.4.1.2:8080"));
        equal(&stage.step(&[], Size::Large));
    }

    pub(super) fn a_new_pod_network_is_taken_over(stage: &mut Stage) {
        equal(&stage.step(
            &[web(json!({})), endpoints(&[ready("10.4.1.1")])],
            Size::Small,
        ));
        let [v4, v6] = NODE_ADDRESSES;
        let mut node = objects::node(v4, v6);
        stage.api().delete(&node);
        node["spec"] =
            json!({"podCIDR": "10.5.0.0/24", "podCIDRs": ["10.5.0.0/24", "fd00:10:5::/64"]});
        stage.api().apply(&node);
        let [upstream, ours] = &mut stage.pairs()[0];
        let sign = ["! -s 10.5.0.0/24".to_owned()];
        eventually(PATIENCE, || ours.shows(Family::V4, &sign));
        ends(upstream);
        equal(&stage.step(&[Op::RestartUpstream], Size::Small));
    }

    pub(super) fn a_new_node_address_is_taken_over(stage: &mut Stage) {
        let admitted = with_ingress(json!({"loadBalancerSourceRanges": ["192.0.2.99/32"]}));
        equal(&stage.step(&[admitted, endpoints(&[ready("10.4.1.1")])], Size::Small));
        stage
            .api()
            .apply(&objects::node("192.0.2.99", "fd00:192::99"));
        let hairpin = ["-s 203.0.113.9/32 ".to_owned()];
        let [upstream, ours] = &mut stage.pairs()[0];
        eventually(PATIENCE, || ours.shows(Family::V4, &hairpin));
        ends(upstream);
        equal(&stage.step(&[Op::RestartUpstream], Size::Small));
    }

    pub(super) fn primary_without_an_address_is_nowhere(stage: &mut Stage) {
        const ANYWHERE: &str = "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS";
        let [primary, _] = NODE_ADDRESSES;
        let mut node = objects::node("", "");
        node["status"]["addresses"] = json!([]);
        stage.api().apply(&node);
        // kube-proxy would be started again, wait for half a minute and then take all addresses.
        ends(&mut stage.pairs()[0][0]);
        // A running daemon keeps the address.
        assert!(v4(stage)[1].contains(&format!("-d {primary}/32 ")));
        stage.prepare(&[Op::RestartOurs]);
        let ours = &mut stage.pairs()[0][1];
        eventually(PATIENCE, || {
            let saved = ours.saved(Family::V4);
            let is_closed = !saved.contains(ANYWHERE) && !saved.contains(primary);
            ensure(is_closed, || saved.clone())
        });
        let [v4, v6] = NODE_ADDRESSES;
        stage.api().apply(&objects::node(v4, v6));
        let sign = [format!("-d {primary}/32 ")];
        eventually(PATIENCE, || stage.pairs()[0][1].shows(Family::V4, &sign));
        equal(&stage.step(&[Op::RestartUpstream], Size::Small));
    }
}

/// Waits until a kube-proxy ends, which leaves it to its supervisor to start it again.
fn ends(upstream: &mut Node) {
    eventually(PATIENCE, || {
        ensure(upstream.has_ended(), || "kube-proxy still runs".to_owned())
    });
}

/// The rules of kube-proxy's node and of ours.
fn v4(stage: &Stage) -> [String; 2] {
    let [upstream, ours] = &stage.pairs_now()[0];
    [upstream.saved(Family::V4), ours.saved(Family::V4)]
}

/// More endpoints than the threshold.
fn crowd() -> [Op; 3] {
    [
        apply(crowd_service()),
        apply(crowd_slice(0, 520)),
        apply(crowd_slice(1, 520)),
    ]
}

#[track_caller]
fn equal(effect: &Effect) {
    assert_eq!(effect.differences, "");
    assert_eq!(effect.refused, []);
}
