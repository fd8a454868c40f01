//! Nothing that an object holds can add or change a rule that it is not entitled to.
//!
//! Three steps: an object becomes the same bytes as its clean twin; of a clean object every rule is
//! its Service's own; and the rules of all others are the same without it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::RuleSet;
use proptest::prelude::*;
use serde_json::Value;

use super::objects::{Cluster, cluster};
use super::play::{Play, SAFE, Twin};
use crate::support::hostile::cases;
use crate::support::rules::{endpoint_chain, service_chain};

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn what_cannot_be_used_leaves_no_trace(cluster in cluster(), is_v6: bool) {
        let family = if is_v6 { IpFamily::V6 } else { IpFamily::V4 };
        let written = payloads(&cluster, Twin::Written, family);
        let meant = payloads(&cluster, Twin::Meant, family);
        prop_assert_eq!(written, meant);
    }

    #[test]
    fn every_rule_is_its_services_own(cluster in cluster(), is_v6: bool) {
        let family = if is_v6 { IpFamily::V6 } else { IpFamily::V4 };
        let claims = claims(&cluster, family);
        let without = Play::alone(&cluster, Twin::Meant, family).full().0;
        let [full, partial] = payloads(&cluster, Twin::Written, family);

        let (added, lost) = difference(&without, &full);
        prop_assert!(lost.is_empty(), "lost: {lost:#?}");
        // Dispatch chains are written whole, with the rules that were there.
        let (changed, _) = difference(&without, &partial);
        for line in added.into_iter().chain(changed) {
            check(line, &claims).map_err(|why| TestCaseError::fail(format!("{why}: {line}")))?;
        }

        // What the lines mean to a kernel: the same chains with rules that can all be read.
        let mut whole = RuleSet::default();
        whole.apply(&full).unwrap();
        prop_assert_eq!(whole.unparsed_rules().count(), 0);
        let mut parts = RuleSet::default();
        parts.apply(&without).unwrap();
        parts.apply(&partial).unwrap();
        prop_assert_eq!(parts.to_save_text(), whole.to_save_text());
    }
}

/// The full payload of everything, and the partial one of all but the Service that is in order.
fn payloads(cluster: &Cluster, twin: Twin, family: IpFamily) -> [String; 2] {
    let mut play = Play::alone(cluster, twin, family);
    let mut applied = play.full().1;
    play.settle();
    play.hears(cluster, twin);
    [play.full().0, play.partial(&mut applied)]
}

/// What a Service may have rules for.
#[derive(Debug, Default)]
struct Claim {
    chains: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
    endpoints: BTreeSet<String>,
    numbers: BTreeSet<i64>,
}

/// Worked out of the clean twins, by name of the Service.
fn claims(cluster: &Cluster, family: IpFamily) -> BTreeMap<String, Claim> {
    let mut claims: BTreeMap<String, Claim> = BTreeMap::new();
    for service in cluster
        .groups
        .iter()
        .filter_map(|group| group.service.meant.as_ref())
    {
        let claim = claims
            .entry(full_name(service, &service["metadata"]["name"]))
            .or_default();
        let spec = &service["spec"];
        let ingress = list(&service["status"]["loadBalancer"]["ingress"]).map(|one| &one["ip"]);
        let ips = list(&spec["clusterIPs"])
            .chain(list(&spec["externalIPs"]))
            .chain(ingress);
        claim
            .addresses
            .extend(ips.filter_map(|ip| ip.as_str()?.parse::<IpAddr>().ok()));
        claim.numbers.extend(spec["healthCheckNodePort"].as_i64());
        for port in list(&spec["ports"]) {
            let numbers = ["port", "nodePort"].map(|field| port[field].as_i64().unwrap());
            claim.numbers.extend(numbers);
        }
        let name = full_name(service, &service["metadata"]["name"]);
        for (port_name, protocol) in list(&spec["ports"]).map(key) {
            let name = spelled(&name, port_name);
            for prefix in ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-"] {
                claim.chains.insert(service_chain(prefix, &name, &protocol));
            }
            for text in endpoints(cluster, service, family, (port_name, &protocol)) {
                claim.chains.insert(endpoint_chain(&name, &protocol, &text));
                claim.endpoints.insert(text);
            }
        }
    }
    claims
}

/// The endpoints that clean slices have for a port of a Service.
fn endpoints(
    cluster: &Cluster,
    service: &Value,
    family: IpFamily,
    port: (&str, &str),
) -> Vec<String> {
    let mut found = Vec::new();
    let slices = cluster.groups.iter().flat_map(|group| &group.slices);
    for slice in slices.filter_map(|slice| slice.meant.as_ref()) {
        let label = &slice["metadata"]["labels"]["kubernetes.io/service-name"];
        let is_mine = full_name(slice, label) == full_name(service, &service["metadata"]["name"]);
        if !is_mine || slice["addressType"] != family.as_str() {
            continue;
        }
        let ports = list(&slice["ports"]).filter(|one| (key(one).0, &*key(one).1) == port);
        for number in ports.map(|one| &one["port"]) {
            found.extend(list(&slice["endpoints"]).map(|one| match family {
                IpFamily::V4 => format!("{}:{number}", one["addresses"][0].as_str().unwrap()),
                IpFamily::V6 => format!("[{}]:{number}", one["addresses"][0].as_str().unwrap()),
            }));
        }
    }
    found
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn full_name(object: &Value, name: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    format!("{namespace}/{}", name.as_str().unwrap())
}

fn key(port: &Value) -> (&str, String) {
    let protocol = port["protocol"].as_str().unwrap().to_lowercase();
    (port["name"].as_str().unwrap(), protocol)
}

fn spelled(name: &str, port: &str) -> String {
    match port {
        "" => name.to_owned(),
        port => format!("{name}:{port}"),
    }
}

/// Lines that one text has more often than the other.
fn difference<'a>(before: &'a str, after: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    after
        .lines()
        .for_each(|line| *counts.entry(line).or_default() += 1);
    before
        .lines()
        .for_each(|line| *counts.entry(line).or_default() -= 1);
    let of = |sign: i64| {
        let lines = counts
            .iter()
            .filter(move |(_, count)| count.signum() == sign);
        lines.map(|(line, _)| *line).collect()
    };
    (of(1), of(-1))
}

/// The chains that all Services share, where a Service has lines for its own addresses.
const SHARED: [&str; 4] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
];

/// Whether some Service may have this line.
fn check(line: &str, claims: &BTreeMap<String, Claim>) -> Result<(), String> {
    if ["*filter", "*nat", "COMMIT"].contains(&line) {
        return Ok(());
    }
    if let Some(header) = line.strip_prefix(':') {
        let chain = header.strip_suffix(" - [0:0]").ok_or("an odd header")?;
        return owner(chain, claims).map(drop);
    }
    let (rule, comment) = without_comment(line)?;
    let mut words = rule.split(' ');
    let (command, chain) = (words.next().unwrap(), words.next().unwrap_or_default());
    let is_edit = ["-A", "-D", "-I"].contains(&command);
    if !is_edit {
        return Err("no rule".to_owned());
    }
    let mine = if SHARED.contains(&chain) {
        let name = comment.split([' ', ':']).next().unwrap_or_default();
        if name == "kubernetes" {
            return tail(&rule);
        }
        claims.get(name).ok_or("of no Service")?
    } else {
        owner(chain, claims)?
    };
    let rest: Vec<&str> = words.collect();
    for pair in rest.windows(2) {
        parameter(pair[0], pair[1], mine)?;
    }
    Ok(())
}

/// The rule that stands behind those of all Services, written anew whenever one is put before it.
fn tail(rule: &str) -> Result<(), String> {
    let is_tail = rule.contains("-A KUBE-SERVICES") && rule.ends_with("-j KUBE-NODEPORTS");
    if is_tail {
        Ok(())
    } else {
        Err("not the tail".to_owned())
    }
}

fn owner<'a>(chain: &str, claims: &'a BTreeMap<String, Claim>) -> Result<&'a Claim, String> {
    let owner = claims.values().find(|claim| claim.chains.contains(chain));
    owner.ok_or_else(|| format!("`{chain}` is not a chain of a Service"))
}

/// A rule and its comment, which has one of two forms: quoted, or a word.
fn without_comment(line: &str) -> Result<(String, &str), String> {
    const BEFORE: &str = " -m comment --comment ";
    let Some((rule, rest)) = line.split_once(BEFORE) else {
        return Ok((line.to_owned(), ""));
    };
    let (comment, rest) = match rest.strip_prefix('"') {
        Some(rest) => rest.split_once('"').ok_or("an open quote")?,
        None => rest.split_once(' ').ok_or("nothing but a comment")?,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " -._/:>[]".contains(c);
    if comment.len() > 255 || !comment.chars().all(is_plain) || rest.contains('"') {
        return Err("an odd comment".to_owned());
    }
    Ok((format!("{rule} {}", rest.trim()), comment))
}

/// Where packets come from may be anything of the node's: networks of clients, marks.
fn parameter(option: &str, value: &str, mine: &Claim) -> Result<(), String> {
    let is_mine = match option {
        "-d" => {
            value == "127.0.0.0/8" || value.parse().is_ok_and(|ip| mine.addresses.contains(&ip))
        }
        "--dport" => value
            .parse()
            .is_ok_and(|number| mine.numbers.contains(&number)),
        "--to-destination" => mine.endpoints.contains(value),
        "-j" => {
            let targets = ["KUBE-MARK-MASQ", "DROP", "REJECT", "ACCEPT", "DNAT"];
            targets.contains(&value) || mine.chains.contains(value)
        }
        _ => true,
    };
    if is_mine {
        Ok(())
    } else {
        Err(format!("`{option} {value}` is not the Service's"))
    }
}

/// The check has something to say of what it is there for.
#[test]
fn lines_of_others_are_found() {
    let mine = Claim {
        chains: ["KUBE-SVC-A".to_owned()].into(),
        addresses: ["10.0.0.1".parse().unwrap()].into(),
        endpoints: ["10.0.0.2:80".to_owned()].into(),
        numbers: [80].into(),
    };
    let claims = BTreeMap::from([("a/b".to_owned(), mine)]);
    for good in [
        ":KUBE-SVC-A - [0:0]",
        "-A KUBE-SERVICES -m comment --comment \"a/b cluster IP\" -m tcp -p tcp -d 10.0.0.1 --dport 80 -j KUBE-SVC-A",
        "-A KUBE-SVC-A -m comment --comment a/b -j DNAT --to-destination 10.0.0.2:80",
    ] {
        assert_eq!(check(good, &claims), Ok(()), "{good}");
    }
    for bad in [
        "",
        "*mangle",
        ":KUBE-SVC-B - [0:0]",
        ":INPUT ACCEPT [0:0]",
        "-A INPUT -j ACCEPT",
        "-A KUBE-SERVICES -j ACCEPT",
        "-A KUBE-SVC-A -j KUBE-SVC-B",
        "-A KUBE-SVC-A -d 10.0.0.9 -j KUBE-SVC-A",
        "-A KUBE-SVC-A -m comment --comment \"a/b\" -j ACCEPT \"",
        "-A KUBE-SVC-A -j DNAT --to-destination 10.0.0.3:80",
        "-A KUBE-SERVICES -m comment --comment \"safe/web cluster IP\" -j KUBE-SVC-A",
        "-A KUBE-SERVICES -m comment --comment a/b -m tcp -p tcp -d 10.0.0.1 --dport 81 -j KUBE-SVC-A",
        "-X KUBE-SVC-A",
    ] {
        assert!(check(bad, &claims).is_err(), "{bad}");
    }
    assert!(!claims.contains_key(SAFE));
}
