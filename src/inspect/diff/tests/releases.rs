//! Live rules of a kube-proxy of another release.

use super::output;
use crate::rules::RuleSet;

/// Rules of kube-proxy until 1.23: a chain of its own for external traffic under policy Local, and
/// marks for masquerading set in the dispatch chain.
const OLD: &str = "\
*nat
:KUBE-SERVICES - [0:0]
:KUBE-XLB-WEB - [0:0]
:KUBE-SVC-WEB - [0:0]
:KUBE-SEP-ONE - [0:0]
:KUBE-SEP-TWO - [0:0]
-A KUBE-SERVICES ! -s 10.4.0.0/14 -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB
-A KUBE-SERVICES -d 203.0.113.1/32 -p tcp -m comment --comment \"shop/web:http loadbalancer IP\" -m tcp --dport 80 -j KUBE-XLB-WEB
-A KUBE-XLB-WEB -s 10.4.0.0/14 -m comment --comment \"Redirect pods trying to reach external loadbalancer VIP to clusterIP\" -j KUBE-SVC-WEB
-A KUBE-XLB-WEB -m comment --comment \"masquerade LOCAL traffic for shop/web:http LB IP\" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-XLB-WEB -m comment --comment \"route LOCAL traffic for shop/web:http LB IP to service chain\" -m addrtype --src-type LOCAL -j KUBE-SVC-WEB
-A KUBE-XLB-WEB -m comment --comment \"Balancing rule 0 for shop/web:http\" -j KUBE-SEP-ONE
-A KUBE-SVC-WEB -m comment --comment \"shop/web:http\" -m statistic --mode random --probability 0.50000 -j KUBE-SEP-ONE
-A KUBE-SVC-WEB -m comment --comment \"shop/web:http\" -j KUBE-SEP-TWO
-A KUBE-SEP-ONE -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.1:8080
-A KUBE-SEP-TWO -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.2:8080
COMMIT
";

const NEW: &str = "\
*nat
:KUBE-SERVICES - [0:0]
:KUBE-EXT-WEB - [0:0]
:KUBE-SVL-WEB - [0:0]
:KUBE-SVC-WEB - [0:0]
:KUBE-SEP-ONE - [0:0]
:KUBE-SEP-TWO - [0:0]
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB
-A KUBE-SERVICES -d 203.0.113.1/32 -p tcp -m comment --comment \"shop/web:http loadbalancer IP\" -m tcp --dport 80 -j KUBE-EXT-WEB
-A KUBE-EXT-WEB -s 10.4.0.0/14 -m comment --comment \"pod traffic for shop/web:http external destinations\" -j KUBE-SVC-WEB
-A KUBE-EXT-WEB -m comment --comment \"masquerade LOCAL traffic for shop/web:http external destinations\" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-EXT-WEB -m comment --comment \"route LOCAL traffic for shop/web:http external destinations\" -m addrtype --src-type LOCAL -j KUBE-SVC-WEB
-A KUBE-EXT-WEB -j KUBE-SVL-WEB
-A KUBE-SVL-WEB -m comment --comment \"shop/web:http -> 10.4.0.1:8080\" -j KUBE-SEP-ONE
-A KUBE-SVC-WEB ! -s 10.4.0.0/14 -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-WEB -m comment --comment \"shop/web:http -> 10.4.0.1:8080\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-ONE
-A KUBE-SVC-WEB -m comment --comment \"shop/web:http -> 10.4.0.2:8080\" -j KUBE-SEP-TWO
-A KUBE-SEP-ONE -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.1:8080
-A KUBE-SEP-TWO -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.4.0.2:8080
COMMIT
";

#[test]
fn other_chains_for_the_same_traffic_have_no_effect_on_frontends_and_endpoints() {
    let (old, new) = (RuleSet::parse(OLD).unwrap(), RuleSet::parse(NEW).unwrap());
    let output = output(&old, &new);
    let port: Vec<&str> = output.lines().take_while(|line| !line.is_empty()).collect();
    let chains: Vec<&&str> = port
        .iter()
        .filter(|line| !line.starts_with("    "))
        .collect();
    assert_eq!(
        chains,
        [
            &"shop/web:http/tcp changes (IPv4)",
            &"  rules differ; frontends and endpoints are the same",
            &"  nat KUBE-EXT-WEB new +4",
            &"  nat KUBE-SERVICES -2 +1",
            &"  nat KUBE-SVC-WEB -2 +3",
            &"  nat KUBE-SVL-WEB new +1",
            &"  nat KUBE-XLB-WEB removed -4",
        ],
        "{output}"
    );
}
