//! Services of payload lines that the kernel rejected.

use super::*;
use crate::model::{Service, ServicePort, ServiceState};
use crate::net::IpFamily;

/// Checks a line with one Service, `ns1/svc1`, which has the port `p80` and an endpoint.
#[track_caller]
fn check(line: &str, is_of_service: bool) {
    let name = ServiceName::new("ns1", "svc1");
    let port = ServicePort::tcp("p80", 80);
    let service = Service::plain([10, 96, 0, 1].into(), Box::new([port]));
    let slice = crate::render::tests::one_endpoint(&name, "p80");
    let state = ServiceState {
        service: Some(service.into()),
        slices: vec![(crate::model::SliceName::new("ns1", "svc1-1"), slice.into())],
        ..ServiceState::default()
    };
    let options = Options::defaults(IpFamily::V4);
    let mut rules = ServiceRules::default();
    service::render(&mut rules, &name, &state, &options, Comments::Everywhere);
    let recorded = AppliedService::rendered(&rules);
    let found = service_of_line(line, std::iter::once((&name, &recorded)));
    assert_eq!(found, is_of_service.then_some(name), "{line}");
}

#[test]
fn rules_name_their_service_port_in_a_comment() {
    for line in [
        r#"-A KUBE-SERVICES -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp"#,
        r#"-A KUBE-SERVICES -m comment --comment "ns1/svc1:p80 has no endpoints" -j REJECT"#,
        "-A KUBE-SEP-AAAAAAAAAAAAAAAA -m comment --comment ns1/svc1:p80 -j DNAT",
        r#"-A KUBE-EXT-A -m comment --comment "pod traffic for ns1/svc1:p80 external destinations""#,
    ] {
        check(line, true);
    }
    for line in [
        r#"-A KUBE-SERVICES -m comment --comment "ns1/other:p80 cluster IP""#,
        r#"-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports""#,
        "-A KUBE-A -m comment --comment ns1/other -d ns1/svc1",
    ] {
        check(line, false);
    }
}

#[test]
fn lines_without_a_comment_are_recognized_by_their_chain() {
    let chain = "KUBE-SVC-XPGD46QRK7WJZT7O";
    check(&format!(":{chain} - [0:0]"), true);
    check(&format!("-A {chain} -j KUBE-SEP-AAAAAAAAAAAAAAAA"), true);
    let jump = format!("-I KUBE-SERVICES -d 10.96.0.1/32 -j {chain}\n");
    check(&jump, true);
    check(":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]", false);
    check(":KUBE-SERVICES - [0:0]", false);
    check("COMMIT", false);
    check("", false);
}
