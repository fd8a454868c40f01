//! Tests of `status`, of single views and of the rows of a snapshot.

use super::*;
use crate::cli::snapshot::{RuleSnapshot, ServiceNames};
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
    let over_limit = |name: &str| reported(|snapshot| snapshot.over_limit = named(name));
    assert_eq!(over_limit("shop/web"), ServiceCondition::OverLimit);
    assert_eq!(over_limit("shop/we"), ServiceCondition::Ok);
    // Of rules that lead nowhere, the limit is the cause.
    let both = reported(|snapshot| {
        let rules = RULES.replace("-A KUBE-SVC-WEB -j KUBE-SEP-WEB\n", "");
        snapshot.rules.v4 = RuleSet::parse(&rules).unwrap();
        snapshot.over_limit = named("shop/web");
    });
    assert_eq!(both, ServiceCondition::OverLimit);
}

#[test]
fn a_service_port_of_both_families_is_one_row() {
    let rows_of = |in_v6: &str| {
        let mut snapshot = RuleSnapshot::default();
        snapshot.rules.v4 = RuleSet::parse(RULES).unwrap();
        snapshot.rules.v6 = RuleSet::parse(&RULES.replace("shop/web", in_v6)).unwrap();
        let (rows, _) = super::rows(&snapshot);
        let shown = rows.iter().map(|row| {
            let families = row.views().map(|(family, view)| (family, view.rules));
            (row.name.name.to_string(), families.collect::<Vec<_>>())
        });
        shown.collect::<Vec<_>>()
    };
    let (v4, v6) = ((IpFamily::V4, 3), (IpFamily::V6, 3));
    let row = |name: &str, families: &[_]| (name.to_owned(), families.to_owned());
    assert_eq!(rows_of("shop/web"), [row("shop/web:http", &[v4, v6])]);
    let two = [row("a/last:http", &[v6]), row("shop/web:http", &[v4])];
    assert_eq!(rows_of("a/last"), two);
}
