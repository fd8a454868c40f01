//! Fields that no rule shows.

use serde_json::{Value, json as value};

use super::super::{FieldReview, ObjectFields, ObjectKind, compare, json};
use super::{text, with};
use crate::net::IpFamily;

fn object(kind: ObjectKind, value: &Value) -> ObjectFields<'_> {
    ObjectFields {
        kind,
        namespace: "shop",
        name: "web",
        value,
    }
}

/// Texts of the changes between two Services, of which the rules are the same: with effect or
/// unknown, and without effect.
fn changes(before: &Value, after: &Value) -> (Vec<String>, Vec<String>) {
    let service = |value| [object(ObjectKind::Service, value)];
    let review = FieldReview::of(&service(before), &service(after), &[]);
    let texts = |changes: &mut dyn Iterator<Item = &super::super::FieldChange>| {
        changes.map(ToString::to_string).collect()
    };
    (
        texts(&mut review.with_effect().chain(review.unknown())),
        texts(&mut review.without_effect()),
    )
}

#[test]
fn fields_of_other_programs_are_listed() {
    let before = value!({"spec": {"selector": {"app": "a", "tier": "x"}, "ports": [
        {"name": "http", "port": 80, "appProtocol": "http"}]}});
    let after = value!({"spec": {"selector": {"app": "b"}, "ports": [
        {"name": "http", "port": 80}], "newField": {"of": [1, 2]}}});
    let (with_effect, without) = changes(&before, &after);
    assert_eq!(
        with_effect,
        [
            "Service shop/web: spec.ports[http].appProtocol http -> none",
            "Service shop/web: spec.selector[app] a -> b",
            "Service shop/web: spec.selector[tier] x -> none",
            // Unknown, and therefore last.
            "Service shop/web: spec.newField.of none -> 1,2",
        ]
    );
    assert_eq!(without, Vec::<String>::new());
}

#[test]
fn defaults_and_fields_without_effect_are_no_difference() {
    let before = value!({"metadata": {"uid": "1"}, "spec": {"ports": [{"port": 80}]}});
    let after = value!({"metadata": {"uid": "2"}, "spec": {
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "externalTrafficPolicy": "Cluster", "publishNotReadyAddresses": false,
        "externalIPs": [], "selector": null, "ipFamilyPolicy": "SingleStack",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        "allocateLoadBalancerNodePorts": true, "healthCheckNodePort": 0,
        "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP", "nodePort": 0}]},
        "status": {"conditions": [{"type": "Ready"}], "loadBalancer": {}}});
    assert_eq!(changes(&before, &after), (Vec::new(), Vec::new()));
    assert_eq!(changes(&after, &before), (Vec::new(), Vec::new()));
}

#[test]
fn items_of_one_name_do_not_hide_each_other() {
    let port = |target: u16| value!({"port": 80, "name": "a", "targetPort": target});
    let before = value!({"spec": {"ports": [port(1), port(2)]}});
    let after = value!({"spec": {"ports": [port(3), port(2)]}});
    let expected = "Service shop/web: spec.ports[a].targetPort 1 -> 3";
    assert_eq!(changes(&before, &after).1, [expected]);
}

/// A field that rules depend on is not repeated if the rules show it.
#[test]
fn fields_are_listed_if_the_rules_of_their_service_do_not_differ() {
    let live = with(&[]);
    let desired = with(&[("10.4.0.2", "10.4.0.7")]);
    let before = value!({"spec": {"externalTrafficPolicy": "Local", "loadBalancerClass": "a"}});
    let after = value!({"spec": {"loadBalancerClass": "b"}});
    let (before, after) = (
        [object(ObjectKind::Service, &before)],
        [object(ObjectKind::Service, &after)],
    );
    let class = "  Service shop/web: spec.loadBalancerClass a -> b\n";
    let policy = "  Service shop/web: spec.externalTrafficPolicy Local -> none\n";
    for (desired, counts, policies) in [
        (&desired, "; 1 field of other programs; 2 chains\n", 0),
        (
            &live,
            "0 service ports change, 0 added, 0 removed; 1 field of other programs; \
             1 field without effect; 0 chains\n",
            1,
        ),
    ] {
        let reviews = [compare(IpFamily::V4, &live, desired)];
        let review = FieldReview::of(&before, &after, &reviews);
        let mut output = String::new();
        text(&mut output, &reviews, &review).unwrap();
        let output = anstream::adapter::strip_str(&output).to_string();
        assert!(output.contains(class), "{output}");
        assert_eq!(output.matches(policy).count(), policies, "{output}");
        assert!(output.ends_with(counts), "{output}");
        let document = json(&reviews, &review);
        assert_eq!(document["summary"]["fields"], 1);
        assert_eq!(document["summary"]["fieldsWithoutEffect"], policies);
        assert_eq!(document["fields"].as_array().unwrap().len(), 1 + policies);
    }
}

#[test]
fn objects_of_one_side_are_listed_by_name() {
    let slice = value!({"metadata": {"labels": {"kubernetes.io/service-name": "other"}}});
    let slice = [object(ObjectKind::EndpointSlice, &slice)];
    let review = FieldReview::of(&slice, &[], &[]);
    let [change] = review.changes.as_slice() else {
        panic!("{review:?}")
    };
    assert_eq!(change.to_string(), "EndpointSlice shop/web: removed object");
    assert_eq!(change.service, "other");
}
