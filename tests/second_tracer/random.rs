//! Random rules in all built-in chains, and random clusters with third-party rules.

use std::fmt::Write as _;

use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{FullPayload, LiveChains};
use deltaproxy::testing::rules::{Payload, RuleSet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use super::save::Save;
use super::walk::Question;
use super::{Fixture, difference};
use crate::cluster::{Dice, World, any_settings};

/// Conditions that packets decide, and some that nothing decides.
const CONDITIONS: &[&str] = &[
    "",
    "-s 10.4.0.0/16",
    "! -s 10.4.0.0/16",
    "-d 10.0.0.7/32",
    "! -d 203.0.113.0/24",
    "-i lo",
    "-i cali+",
    "! -i eth0",
    "-o lo",
    "! -o cni0",
    "-p tcp",
    "-p udp -m udp --dport 53",
    "-p tcp -m tcp --dport 80",
    "-p tcp -m tcp --dport 8080 --tcp-flags FIN,SYN,RST,ACK SYN",
    "-p tcp -m tcp ! --tcp-flags SYN,FIN NONE",
    "-p tcp -m tcp --sport 1024:65535",
    "-p tcp -m multiport --dports 22,80,8000:8100",
    "-p tcp -m multiport ! --sports 22",
    "-m state --state NEW",
    "-m state --state RELATED,ESTABLISHED",
    "-m conntrack --ctstate INVALID,UNTRACKED",
    "-m conntrack --ctdir REPLY",
    "-m conntrack ! --ctstatus SEEN_REPLY",
    "-s 10.0.0.7/32",
    "-d 192.168.0.2/32",
    "-o cali+",
    "-p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK",
    "-p tcp -m tcp --sport 8080",
    "-p tcp -m multiport --ports 8080,9090",
    "-p tcp -m multiport --sports 80,8080",
    "-m rpfilter --invert",
    "-m conntrack ! --ctstate INVALID,DNAT",
    "-m conntrack --ctstate DNAT",
    "-m conntrack --ctstate SNAT",
    "-m conntrack --ctorigdst 203.0.113.9 --ctdir ORIGINAL",
    "-m conntrack ! --ctreplsrc 10.0.0.0/8",
    "-m conntrack --ctstatus CONFIRMED",
    "-m addrtype --dst-type LOCAL",
    "-m addrtype ! --src-type LOCAL",
    "-m addrtype --dst-type UNICAST",
    "-m iprange --src-range 198.51.100.1-198.51.100.9",
    "-m iprange ! --dst-range 10.0.0.1-10.0.0.9",
    "-m physdev ! --physdev-is-in",
    "-m physdev --physdev-in veth0",
    "-m mark --mark 0x1/0x1",
    "-m mark ! --mark 0x2/0x3",
    "-m connmark --mark 0x1/0x1",
    "-m statistic --mode random --probability 0.50000000000",
    "-m statistic --mode nth --every 3 --packet 0",
    "-m recent --set --name seen",
    "-m recent --rcheck --name seen",
    "-m owner --uid-owner 0",
    "-m owner ! --uid-owner 0",
    "-m cgroup ! --cgroup 5",
    "-m set --match-set a src",
    "-m set ! --match-set b dst",
    "-m limit --limit 5/min",
    "-m comment --comment \"a b\"",
];

const FILTER: &[&str] = &[
    "-j ACCEPT",
    "-j DROP",
    "-j REJECT",
    "-j RETURN",
    "-j LOG --log-prefix x",
    "-j MARK --set-xmark 0x1/0x1",
    "-j CONNMARK --set-xmark 0x1/0x1",
    "-j NEXT",
    "-j NEXT",
    "-g NEXT",
    "-j NFQUEUE --queue-num 1",
    "",
];

const MANGLE: &[&str] = &[
    "-j MARK --set-xmark 0x1/0xff",
    "-j MARK --set-xmark 0x2/0x2",
    "-j MARK --and-mark 0xfffffffe",
    "-j CONNMARK --save-mark --nfmask 0xff --ctmask 0xffffffff",
    "-j CONNMARK --restore-mark --nfmask 0x1 --ctmask 0x1",
    "-j ACCEPT",
    "-j RETURN",
    "-j DROP",
    "-j NEXT",
    "-j TCPMSS --clamp-mss-to-pmtu",
];

/// Targets of the raw table.
const RAW: &[&str] = &[
    "-j CT --notrack",
    "-j NOTRACK",
    "-j CT --notrack",
    "-j MARK --set-xmark 0x1/0xff",
    "-j CONNMARK --set-xmark 0x1/0x1",
    "-j ACCEPT",
    "-j RETURN",
    "-j DROP",
    "-j NEXT",
    "-j TRACE",
];

/// Targets of the security table.
const SECURITY: &[&str] = &[
    "-j ACCEPT",
    "-j RETURN",
    "-j DROP",
    "-j NEXT",
    "-j SECMARK --selctx a",
];

const BEFORE_ROUTING: &[&str] = &[
    "-j DNAT --to-destination 10.0.0.7:8080",
    "-j DNAT --to-destination 10.0.0.8",
    "-j DNAT --to-destination :8080",
    "-j DNAT --to-destination 192.168.0.2:8080",
    "-j DNAT --to-destination 10.0.0.7:8080 --random",
    "-j ACCEPT",
    "-j RETURN",
    "-j MARK --set-xmark 0x1/0x1",
    "-j NEXT",
    "-j NEXT",
];

const AFTER_ROUTING: &[&str] = &[
    "-j MASQUERADE",
    "-j MASQUERADE --random-fully",
    "-j SNAT --to-source 192.168.0.2",
    "-j NETMAP --to 192.168.9.0/24",
    "-j ACCEPT",
    "-j RETURN",
    "-j NEXT",
];

/// Tables, their built-in chains, and what their rules do. Each has its own chains to jump to.
const PLACES: &[(&str, &[&str], &[&str])] = &[
    ("filter", &["INPUT", "FORWARD", "OUTPUT"], FILTER),
    (
        "mangle",
        &["PREROUTING", "FORWARD", "OUTPUT", "POSTROUTING", "INPUT"],
        MANGLE,
    ),
    ("raw", &["PREROUTING", "OUTPUT"], RAW),
    ("security", &["INPUT", "FORWARD", "OUTPUT"], SECURITY),
    ("nat", &["PREROUTING", "OUTPUT"], BEFORE_ROUTING),
    ("nat", &["POSTROUTING", "INPUT"], AFTER_ROUTING),
];

/// A rule as numbers: place, chain, conditions and target.
type Seed = (usize, usize, Vec<usize>, usize);

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let number = 0..1000_usize;
    vec(
        (
            number.clone(),
            number.clone(),
            vec(number.clone(), 0..3),
            number,
        ),
        1..12,
    )
}

/// The text of rules. Chains jump to the next of their own only, so that there are no loops.
fn written(seeds: &[Seed], policy: &str) -> String {
    let mut text = String::new();
    for table in ["filter", "mangle", "nat", "raw", "security"] {
        let policy = if table == "filter" { policy } else { "ACCEPT" };
        let _ = writeln!(text, "*{table}");
        let places = PLACES.iter().enumerate();
        for (number, (_, hooks, _)) in places.filter(|(_, place)| place.0 == table) {
            for hook in *hooks {
                let _ = writeln!(text, ":{hook} {policy} [0:0]");
            }
            let _ = writeln!(text, ":A{number} - [0:0]\n:B{number} - [0:0]");
        }
        let of_table = |seed: &&Seed| PLACES[seed.0 % PLACES.len()].0 == table;
        for rule in seeds.iter().filter(of_table).filter_map(rule) {
            let _ = writeln!(text, "-A {rule}");
        }
        text.push_str("COMMIT\n");
    }
    text
}

/// The text of a rule; `None` if it would jump from the last of its chains.
fn rule((place, chain, conditions, target): &Seed) -> Option<String> {
    let place = place % PLACES.len();
    let (_, hooks, targets) = PLACES[place];
    let own = [format!("A{place}"), format!("B{place}")];
    // One of the built-in chains, or one of the two behind them.
    let chain = chain % (hooks.len() + own.len());
    let (name, next) = match chain.checked_sub(hooks.len()) {
        None => (hooks[chain], Some(&own[0])),
        Some(0) => (own[0].as_str(), Some(&own[1])),
        Some(_) => (own[1].as_str(), None),
    };
    let target = targets[target % targets.len()];
    let target = match next {
        Some(next) => target.replace("NEXT", next),
        None if target.contains("NEXT") => return None,
        None => target.to_owned(),
    };
    let mut used: Vec<&str> = Vec::new();
    for number in conditions {
        let condition = CONDITIONS[number % CONDITIONS.len()];
        // A rule has each option and each module once.
        if used.iter().all(|other| kind(other) != kind(condition)) {
            used.push(condition);
        }
    }
    Some(format!("{name} {} {target}", used.join(" ")))
}

/// The option of a condition, or its module.
fn kind(condition: &str) -> &str {
    let plain = condition.trim_start_matches("! ");
    let mut words = plain.split(' ');
    match words.next() {
        Some("-m") => words.next().unwrap(),
        first => first.unwrap_or_default(),
    }
}

fn question((source, to, protocol, interface): (usize, usize, bool, usize)) -> Question {
    let sources = ["198.51.100.7", "10.4.0.9", "192.168.0.2"];
    let destinations = ["203.0.113.9", "192.168.0.2", "10.0.0.7", "198.51.100.255"];
    let interfaces = [None, Some("eth0"), Some("cali12")];
    let source: std::net::IpAddr = sources[source % sources.len()].parse().unwrap();
    let own: std::net::IpAddr = "192.168.0.2".parse().unwrap();
    let in_interface = interfaces[interface % interfaces.len()].filter(|_| source != own);
    Question {
        source,
        destination: destinations[to % destinations.len()].parse().unwrap(),
        port: if protocol { 80 } else { 53 },
        protocol: if protocol { "tcp" } else { "udp" }.to_owned(),
        in_interface: in_interface.map(str::to_owned),
        own: [own].into(),
        may_be_bridged: false,
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        max_shrink_iters: 2000,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn explain_agrees_with_a_second_tracer_over_random_rules(
        seeds in seeds(),
        is_closed: bool,
        asked in (0..3_usize, 0..4_usize, any::<bool>(), 0..3_usize),
    ) {
        let text = written(&seeds, if is_closed { "DROP" } else { "ACCEPT" });
        let (save, rules) = (Save::read(&text).unwrap(), RuleSet::parse(&text).unwrap());
        let found = difference(&save, &rules, &question(asked));
        prop_assume!(found.is_some());
        let found = found.unwrap();
        prop_assert!(found.is_ok(), "{}\n{text}", found.unwrap_err());
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn explain_agrees_with_a_second_tracer_over_random_clusters(
        edits in vec(any::<u64>(), 10..40),
        setting: u64,
        is_v6: bool,
        others in vec((0..CONDITIONS.len(), 0..3_usize), 0..3),
    ) {
        let family = if is_v6 { IpFamily::V6 } else { IpFamily::V4 };
        let mut world = World::empty(family);
        for seed in &edits {
            world.edit(&mut Dice::new(*seed));
        }
        let options = any_settings(&mut Dice::new(setting), family).options(Some(&world.node), &[]);
        let tracker = world.tracker();
        let live = LiveChains::default();
        let mut payload = FullPayload::new(&tracker, &options, &live);
        let mut bytes = Vec::new();
        while payload.write_next(&mut bytes) {}
        let mut rules = RuleSet::default();
        rules.apply(&String::from_utf8(bytes).unwrap()).unwrap();
        let mut third_party = "*filter\n".to_owned();
        for (condition, target) in others {
            let condition = CONDITIONS[condition];
            // An endpoint that no rule leads to is a pod only for those that know its chain.
            let is_usable = (!is_v6 || !condition.contains('.')) && !condition.contains("physdev");
            let target = ["ACCEPT", "REJECT", "DROP"][target];
            if is_usable {
                let _ = writeln!(third_party, "-I FORWARD {condition} -j {target}");
            }
        }
        rules.apply(&format!("{third_party}COMMIT\n")).unwrap();
        let text = rules.to_save_text();
        let fixture = Fixture::new(&text);
        for question in fixture.questions.iter().take(60) {
            if let Some(found) = difference(&fixture.save, &fixture.rules, question) {
                prop_assert!(found.is_ok(), "{}\n{text}", found.unwrap_err());
            }
        }
    }
}
