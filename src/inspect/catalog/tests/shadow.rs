//! Frontends for which several Services have rules.

use crate::inspect::catalog::Catalog;
use crate::inspect::catalog::FrontendDisposition::{Served, Unreachable};
use crate::rules::RuleSet;

const SAVED: &str = "\
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-EXT-A - [0:0]
:KUBE-EXT-B - [0:0]
:KUBE-SEP-A - [0:0]
-A KUBE-SERVICES -d 192.0.2.1/32 -p tcp -m comment --comment \"shop/b external IP\" -m tcp --dport 80 -j KUBE-EXT-B
-A KUBE-SERVICES -d 192.0.2.1/32 -p tcp -m comment --comment \"shop/a external IP\" -m tcp --dport 80 -j KUBE-EXT-A
-A KUBE-SERVICES -d 192.0.2.1/32 -p udp -m comment --comment \"shop/a external IP\" -m udp --dport 80 -j KUBE-EXT-A
-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/a\" -m tcp --dport 30080 -j KUBE-EXT-A
-A KUBE-EXT-A -j KUBE-SEP-A
-A KUBE-EXT-B -j KUBE-SEP-A
-A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination 10.4.0.1:80
COMMIT
*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"shop/c has no endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT
COMMIT
";

#[test]
fn the_first_rule_has_the_frontend() {
    let catalog = Catalog::read(&RuleSet::parse(SAVED).unwrap());
    let shown: Vec<_> = catalog
        .shadowed
        .iter()
        .map(|one| format!("{} {} of {}, {:?}", one.loser, one, one.owner, one.rules))
        .collect();
    assert_eq!(
        shown,
        [
            "shop/a/tcp 192.0.2.1:80/tcp of shop/b, Shadowed",
            // DNAT comes before the filter table.
            "shop/c/tcp *:30080/tcp of shop/a, Shadowed",
        ]
    );
    let dispositions = |name: &str| {
        let ports = catalog.ports.iter();
        let of_name = ports.filter(|(known, _)| *known.name == *name);
        let frontends = of_name.flat_map(|(_, view)| &view.frontends);
        frontends.map(|one| one.disposition).collect::<Vec<_>>()
    };
    assert_eq!(dispositions("shop/a"), [Unreachable, Served, Served]);
    assert_eq!(dispositions("shop/b"), [Served]);
    assert_eq!(dispositions("shop/c"), [Unreachable]);
}
