//! Jumps that a payload may lack, and chains that are nested deeply. `tests/packets/damage.tbl` has
//! damaged rules, with packets through a kernel.

use super::SAVED;
use crate::inspect::catalog::{
    Catalog, FrontendDisposition, FrontendKind, RequiredJump, RulesetGap, RulesetSource,
};
use crate::rules::RuleSet;

/// Checks the missing jumps, and the dispositions of the cluster IP and the NodePort of `shop/web`.
#[track_caller]
fn check(
    rules: &RuleSet,
    source: RulesetSource,
    missing: &[RequiredJump],
    expected: [FrontendDisposition; 2],
) {
    let mut catalog = Catalog::read(rules);
    let missing: Vec<_> = missing.iter().copied().map(RulesetGap::Jump).collect();
    assert_eq!(catalog.mark_unreachable(rules, source), missing);
    let web = catalog.ports.last_key_value().unwrap().1;
    let disposition = |kind| {
        let mut all = web.frontends.iter();
        all.find(|one| one.kind == kind).unwrap().disposition
    };
    let found = [FrontendKind::ClusterIp, FrontendKind::NodePort].map(disposition);
    assert_eq!(found, expected);
}

#[test]
fn a_payload_needs_no_jumps_in_built_in_chains() {
    use FrontendDisposition::{Served, Unreachable};
    let payload = RuleSet::parse(SAVED).unwrap();
    check(&payload, RulesetSource::Payload, &[], [Served, Served]);
    check(
        &payload,
        RulesetSource::Kernel,
        &[RequiredJump::Prerouting, RequiredJump::Output],
        [Unreachable, Unreachable],
    );
}

/// More nested chains than the stack would hold with recursion.
#[test]
fn deeply_nested_chains_are_followed_to_their_end() {
    use std::fmt::Write as _;

    const CHAINS: usize = 30_000;

    let mut text = "*nat\n:KUBE-SERVICES - [0:0]\n".to_owned();
    for number in 0..=CHAINS {
        writeln!(text, ":C{number} - [0:0]").unwrap();
    }
    text.push_str(
        "-A KUBE-SERVICES -d 10.0.0.1/32 -p tcp -m comment --comment \"shop/web cluster IP\" \
         -m tcp --dport 80 -j C0\n",
    );
    for number in 0..CHAINS {
        writeln!(text, "-A C{number} -j C{}", number + 1).unwrap();
    }
    for (end, expected) in [
        (
            "-j DNAT --to-destination 10.1.1.1:80",
            FrontendDisposition::Served,
        ),
        ("-j RETURN", FrontendDisposition::Unreachable),
    ] {
        let rules = RuleSet::parse(&format!("{text}-A C{CHAINS} -p tcp {end}\nCOMMIT\n")).unwrap();
        let catalog = Catalog::read(&rules);
        let web = catalog.ports.last_key_value().unwrap().1;
        let found = web.frontends.first().unwrap().disposition;
        assert_eq!(found, expected, "{end}");
    }
}
