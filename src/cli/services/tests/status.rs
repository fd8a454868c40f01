//! Tests of `status`, of single views and of the rows of a snapshot.

use super::*;
use crate::cli::snapshot::{RuleSnapshot, ServiceNames};
use crate::inspect::catalog::Catalog;
use crate::rules::RuleSet;

const RULES: &str = "*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-SVC-WEB - [0:0]
:KUBE-SEP-WEB - [0:0]
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB
-A KUBE-SVC-WEB -j KUBE-SEP-WEB
-A KUBE-SEP-WEB -p tcp -m tcp -j DNAT --to-destination 10.4.0.1:8080
COMMIT
";

#[track_caller]
fn check(from: &str, to: &str, has_nat: bool, expected: ServiceCondition) {
    let rules = RULES.replace(from, to);
    assert!(from.is_empty() || rules != RULES, "{from}");
    let catalog = Catalog::read(&RuleSet::parse(&rules).unwrap());
    let view = catalog.ports.values().next().unwrap();
    assert_eq!(shown_status(view, has_nat), expected, "{to}");
}

#[test]
fn rules_show_whether_endpoints_are_reached() {
    check("", "", true, ServiceCondition::Ok);
    check("", "", false, ServiceCondition::Unknown);
    check(
        "-A KUBE-SVC-WEB -j KUBE-SEP-WEB\n",
        "",
        true,
        ServiceCondition::NoPath,
    );
    check(
        "10.4.0.1:8080",
        "x.x.x.x:8080",
        true,
        ServiceCondition::Unknown,
    );
    let filter = |comment: &str, target: &str| {
        format!(
            "*filter\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment \
             --comment \"shop/web:http {comment}\" -m tcp --dport 80 -j {target}\nCOMMIT\n"
        )
    };
    check(
        RULES,
        &filter("has no endpoints", "REJECT"),
        true,
        ServiceCondition::NoEndpoints,
    );
    let no_local = filter("has no local endpoints", "DROP");
    check(RULES, &no_local, true, ServiceCondition::NoLocalEndpoint);
}

/// Returns the status of the row whose Service is reported by this change of a snapshot.
fn reported(change: impl Fn(&mut RuleSnapshot)) -> ServiceCondition {
    let mut snapshot = RuleSnapshot::default();
    snapshot.rules.v4 = RuleSet::parse(RULES).unwrap();
    change(&mut snapshot);
    let (rows, _) = super::rows(&snapshot);
    rows.first().unwrap().status()
}

#[test]
fn reports_of_a_service_come_before_its_rules() {
    let named = |name: &str| PerFamily {
        v4: ServiceNames(vec![name.to_owned()]),
        v6: ServiceNames::default(),
    };
    assert_eq!(reported(|_| ()), ServiceCondition::Ok);
    let quarantined = reported(|snapshot| snapshot.quarantined = named("shop/web"));
    assert_eq!(quarantined, ServiceCondition::Quarantined);
    assert_eq!(
        reported(|snapshot| snapshot.over_limit = named("shop/web")),
        ServiceCondition::OverLimit
    );
    assert_eq!(
        reported(|snapshot| snapshot.over_limit = named("shop/we")),
        ServiceCondition::Ok
    );
    // Of rules that lead nowhere, the limit is the cause.
    let both = reported(|snapshot| {
        let rules = RULES.replace("-A KUBE-SVC-WEB -j KUBE-SEP-WEB\n", "");
        snapshot.rules.v4 = RuleSet::parse(&rules).unwrap();
        snapshot.over_limit = named("shop/web");
    });
    assert_eq!(both, ServiceCondition::OverLimit);
}
