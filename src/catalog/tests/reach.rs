//! Jumps that are missing on the way to service ports.

use super::SAVED;
use crate::catalog::{Catalog, Extent, Fate, Gap, Kind};
use crate::rules::RuleSet;

const BUILT_IN: &str = "\
*nat
:CALI - [0:0]
-A PREROUTING -j CALI
-A OUTPUT -j KUBE-SERVICES
-A CALI -j KUBE-SERVICES
COMMIT
";

/// A node's rules but for those that have a text in them.
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

/// The gaps, and what becomes of the cluster IP and the NodePort of `shop/web`.
#[track_caller]
fn check(rules: &RuleSet, extent: Extent, gaps: &[Gap], fates: [Fate; 2]) {
    let mut catalog = Catalog::read(rules);
    assert_eq!(catalog.heed_gaps(rules, extent), gaps);
    let web = catalog.ports.last_key_value().unwrap().1;
    let fate = |kind| {
        let mut all = web.entrances.iter();
        all.find(|entrance| entrance.kind == kind).unwrap().fate
    };
    assert_eq!([fate(Kind::ClusterIp), fate(Kind::NodePort)], fates);
}

#[test]
fn whoever_is_not_asked_is_not_served() {
    use Fate::{Served, Unreachable};
    let whole = without("");
    check(&whole, Extent::Kernel, &[], [Served, Served]);
    check(
        &without("-j KUBE-NODEPORTS"),
        Extent::Kernel,
        &[Gap::NodePorts],
        [Served, Unreachable],
    );
    // Through other people's chains, too.
    check(
        &without("-A CALI"),
        Extent::Kernel,
        &[Gap::Prerouting],
        [Unreachable, Unreachable],
    );
    // Programs of the node are not who a fate is about.
    check(
        &without("-A OUTPUT"),
        Extent::Kernel,
        &[Gap::Output],
        [Served, Served],
    );
}

#[test]
fn a_payload_lacks_no_jumps_in_built_in_chains() {
    use Fate::{Served, Unreachable};
    let payload = RuleSet::parse(SAVED).unwrap();
    assert_eq!(Extent::guess(&payload), Extent::Payload);
    assert_eq!(Extent::guess(&without("")), Extent::Kernel);
    check(&payload, Extent::Payload, &[], [Served, Served]);
    check(
        &payload,
        Extent::Kernel,
        &[Gap::Prerouting, Gap::Output],
        [Unreachable, Unreachable],
    );
}

/// The way to a service port is there, and the way on from it is not.
#[test]
fn what_leads_on_to_no_endpoint_serves_nobody() {
    use Fate::{Served, Unreachable};
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
        check(&after(&edit), Extent::Kernel, &[], cut);
    }
    let lost = [Unreachable, Unreachable];
    let mut flushed = String::new();
    for chain in &web.chains {
        if chain.starts_with("KUBE-SEP-") {
            flushed.extend(["-F ", chain, "\n"]);
        }
    }
    check(&after(&flushed), Extent::Kernel, &[], lost);
    let some = format!("-I {external} -s 192.0.2.1 -j RETURN\n");
    check(&after(&some), Extent::Kernel, &[], [Served, Served]);
}

/// Deeper than any stack would be, if each chain took some of it.
#[test]
fn a_way_through_many_chains_is_followed_to_its_end() {
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
    for (end, fate) in [
        ("-j DNAT --to-destination 10.1.1.1:80", Fate::Served),
        ("-j RETURN", Fate::Unreachable),
    ] {
        let rules = RuleSet::parse(&format!("{text}-A C{CHAINS} -p tcp {end}\nCOMMIT\n")).unwrap();
        let catalog = Catalog::read(&rules);
        let web = catalog.ports.last_key_value().unwrap().1;
        assert_eq!(web.entrances.first().unwrap().fate, fate, "{end}");
    }
}
