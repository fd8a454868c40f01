//! Missing jumps before and after frontends.

use super::SAVED;
use crate::inspect::catalog::TrafficOrigin::{self, Node, Outside};
use crate::inspect::catalog::{
    Catalog, FrontendDisposition, FrontendKind, RequiredJump, RulesetGap, RulesetSource,
};
use crate::rules::RuleSet;

const BUILT_IN: &str = "\
*nat
:CALI - [0:0]
-A PREROUTING -j CALI
-A OUTPUT -j KUBE-SERVICES
-A CALI -j KUBE-SERVICES
COMMIT
";

/// Returns a node's rules without those that contain `part`.
fn without(part: &str) -> RuleSet {
    let kept = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| part.is_empty() || !line.contains(part));
        format!("{}\n", lines.collect::<Vec<_>>().join("\n"))
    };
    let mut rules = RuleSet::parse(&kept(SAVED)).unwrap();
    rules.apply(&kept(BUILT_IN)).unwrap();
    rules
}

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
fn frontends_behind_a_missing_jump_are_unreachable() {
    use FrontendDisposition::{Served, Unreachable};
    let whole = without("");
    check(&whole, RulesetSource::Kernel, &[], [Served, Served]);
    check(
        &without("-j KUBE-NODEPORTS"),
        RulesetSource::Kernel,
        &[RequiredJump::NodePorts],
        [Served, Unreachable],
    );
    // A jump through third-party chains counts.
    check(
        &without("-A CALI"),
        RulesetSource::Kernel,
        &[RequiredJump::Prerouting],
        [Unreachable, Unreachable],
    );
    // The disposition is that of traffic from outside, not from processes of the node.
    check(
        &without("-A OUTPUT"),
        RulesetSource::Kernel,
        &[RequiredJump::Output],
        [Served, Served],
    );
}

/// Checks from where the cluster IP and the endpoints of `shop/web` are unreachable.
#[track_caller]
fn check_origins(rules: &RuleSet, expected: &[TrafficOrigin]) {
    let mut catalog = Catalog::read(rules);
    catalog.mark_unreachable(rules, RulesetSource::Kernel);
    let web = catalog.ports.last_key_value().unwrap().1;
    let mut frontends = web.frontends.iter();
    let cluster_ip = frontends.find(|one| one.kind == FrontendKind::ClusterIp);
    let expected = expected.iter().copied().collect();
    assert_eq!(cluster_ip.unwrap().unreachable_from, expected);
    assert_eq!(web.unreachable_from(), expected);
}

#[test]
fn traffic_of_the_node_and_from_outside_is_told_apart() {
    check_origins(&without(""), &[]);
    check_origins(&without("-A CALI"), &[Outside]);
    check_origins(&without("-A OUTPUT"), &[Node]);
    check_origins(&RuleSet::parse(SAVED).unwrap(), &[Outside, Node]);
    // Policy Local has a rule of its own for the node, before the one that is missing.
    let rules = without("-A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-SVL");
    let catalog = Catalog::read(&rules);
    let web = catalog.ports.last_key_value().unwrap().1;
    let mut frontends = web.frontends.iter();
    let node_port = frontends.find(|one| one.kind == FrontendKind::NodePort);
    assert_eq!(node_port.unwrap().unreachable_from, [Outside].into());
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

/// Jumps lead to the frontends; those that lead on from them are missing.
#[test]
fn frontends_without_a_path_to_an_endpoint_are_unreachable() {
    use FrontendDisposition::{Served, Unreachable};
    let after = |edit: &str| {
        let mut rules = without("");
        rules.apply(&format!("*nat\n{edit}COMMIT\n")).unwrap();
        rules
    };
    let catalog = Catalog::read(&without(""));
    let web = catalog.ports.last_key_value().unwrap().1;
    let chain = |prefix: &str| {
        let mut chains = web.chains.iter().filter(|chain| chain.starts_with(prefix));
        chains.next().unwrap().to_string()
    };
    let external = chain("KUBE-EXT-");
    let cut = [Served, Unreachable];
    for edit in [
        format!("-F {external}\n"),
        format!("-I {external} -m comment --comment x -j RETURN\n"),
        format!("-A {external} -j {external}\n-I {external} -j ACCEPT\n"),
    ] {
        check(&after(&edit), RulesetSource::Kernel, &[], cut);
    }
    let lost = [Unreachable, Unreachable];
    let mut flushed = String::new();
    for chain in &web.chains {
        if chain.starts_with("KUBE-SEP-") {
            flushed.extend(["-F ", chain, "\n"]);
        }
    }
    check(&after(&flushed), RulesetSource::Kernel, &[], lost);
    // Rules for clients of the cluster remain, and lead to endpoints.
    let local = chain("KUBE-SVL-");
    let jump = format!("-D {external} -j {local}\n");
    check(&after(&jump), RulesetSource::Kernel, &[], cut);
    let some = format!("-I {external} -s 192.0.2.1 -j RETURN\n");
    check(&after(&some), RulesetSource::Kernel, &[], [Served, Served]);
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
