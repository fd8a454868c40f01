//! Dumps of many programs and releases: reading them never fails, loses nothing, and finds the
//! Services.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use deltaproxy::testing::inspect::catalog::{Catalog, PortName, PortView};
use deltaproxy::testing::rules::{RuleSet, Table};

fn dumps() -> Vec<(String, String)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dumps"));
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut dumps: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(_, path)| path.extension().is_some_and(|end| end == "save"))
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect();
    dumps.sort();
    assert!(dumps.len() >= 7, "not all dumps are there");
    dumps
}

/// How many rules the text has in the tables that are modelled.
fn rule_lines(text: &str) -> usize {
    let mut is_modelled = false;
    let mut count = 0;
    for line in text.lines() {
        if let Some(table) = line.strip_prefix('*') {
            is_modelled = Table::from_name(table).is_some();
        }
        let is_rule = line.starts_with("-A ") || (line.starts_with('[') && line.contains("] -A "));
        count += usize::from(is_rule && is_modelled);
    }
    count
}

#[test]
fn every_dump_is_read_whole_and_printed_as_what_it_is() {
    for (name, text) in dumps() {
        let rules = RuleSet::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let held: usize = Table::ALL
            .iter()
            .map(|table| rules.rule_count(*table))
            .sum();
        assert_eq!(held, rule_lines(&text), "{name}");
        let printed = rules.to_save_text();
        let again = RuleSet::parse(&printed).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again.to_save_text(), printed, "{name}");
        let opaque: Vec<String> = rules
            .unparsed_rules()
            .map(|(_, _, rule)| rule.to_string())
            .collect();
        let expected = if name.starts_with("unreadable") { 5 } else { 0 };
        assert_eq!(opaque.len(), expected, "{name}: {opaque:#?}");
        for (table, chain, rule) in rules.unparsed_rules() {
            let held = &again.chain(table, chain).unwrap().rules;
            assert!(held.contains(rule), "{name}: {rule}");
        }
        for table in Table::ALL {
            assert!(
                rules.chains(table).eq(again.chains(table)),
                "{name}: {table}"
            );
        }
    }
}

/// Cut off anywhere, a dump is an error with a line of it, or it was cut after a `COMMIT`.
#[test]
fn half_a_dump_is_no_dump() {
    for (name, text) in dumps() {
        for (end, _) in text.char_indices().step_by(37) {
            let Err(error) = RuleSet::parse(&text[..end]) else {
                let last = text[..end].lines().rfind(|line| !line.starts_with('#'));
                assert!(last.is_none_or(|line| line == "COMMIT"), "{name}: {end}");
                continue;
            };
            assert!(
                error.line <= text[..end].lines().count() + 1,
                "{name}: {error}"
            );
        }
    }
}

fn shown(name: &PortName, view: &PortView) -> String {
    let policy = |policy: Option<deltaproxy::testing::inspect::catalog::Policy>| match policy {
        Some(policy) => policy.as_str(),
        None => "-",
    };
    let entrances: Vec<_> = view
        .frontends
        .iter()
        .map(|entrance| format!("{} {entrance} {:?}", entrance.kind, entrance.disposition))
        .collect();
    let endpoints: Vec<_> = view
        .endpoints
        .iter()
        .map(|one| {
            let local = one
                .local
                .map_or(String::new(), |share| format!(" local {share}"));
            let cluster = one
                .cluster
                .map_or(String::new(), |share| format!(" {share}"));
            format!("{}{cluster}{local}", one.address)
        })
        .collect();
    let (internal, external) = (policy(view.internal_policy), policy(view.external_policy));
    format!(
        "{name} {internal}/{external}: {} -> {}",
        entrances.join(", "),
        endpoints.join(", ")
    )
}

/// A dump, and the service ports that are found in it.
const FOUND: [(&str, &[&str]); 3] = [
    (
        "kube-proxy-1.20-v4.save",
        &[
            "kube-system/kube-dns:dns/udp Cluster/-: cluster IP 10.96.0.10:53 Served -> 10.244.0.2:53 1/2, 10.244.0.3:53 1/2",
            "shop/admin/tcp Cluster/Cluster: cluster IP 10.99.1.2:443 Served, external IP 192.0.2.50:443 Served, load balancer 203.0.113.8:443 Served, node port *:31443 Served -> 10.244.1.9:8443 1",
            "shop/gone:http/tcp -/-: cluster IP 10.99.1.3:80 Rejected, node port *:31999 Rejected -> ",
            "shop/web:http/tcp Cluster/Local: cluster IP 10.99.1.1:80 Served, load balancer 203.0.113.7:80 Served, node port *:31080 Served, health check *:32123 Served -> 10.244.1.2:8080 1/2 local 1, 10.244.2.3:8080 1/2",
        ],
    ),
    (
        "kube-proxy-1.23-v6.save",
        &[
            "shop/here:dns/udp Local/-: cluster IP [fd00:10:96::e]:53 Served -> [fd00:10:244::2]:53 local 1",
            "shop/six/tcp Cluster/Local: cluster IP [fd00:10:96::d]:80 Served, node port *:30006 Dropped -> [fd00:10:244::1:5]:8080 1",
        ],
    ),
    (
        "kube-proxy-1.29-v4.save",
        &[
            "edge/sctp:s/sctp Local/-: cluster IP 10.43.9.10:5 Dropped -> ",
            "edge/traefik:web/tcp Cluster/Local: cluster IP 10.43.9.9:80 Served, load balancer 192.0.2.80:80 Served, node port *:32080 Served, health check *:31234 Served -> 10.42.0.7:8000 1/2 local 1, 10.42.1.7:8000 1/2",
        ],
    ),
];

#[test]
fn services_of_old_releases_are_found() {
    let dumps: BTreeMap<String, String> = dumps().into_iter().collect();
    for (dump, expected) in FOUND {
        let catalog = Catalog::read(&RuleSet::parse(&dumps[dump]).unwrap());
        let ports = catalog.ports.iter();
        let found: Vec<_> = ports.map(|(name, view)| shown(name, view)).collect();
        assert_eq!(found, expected, "{dump}");
        assert!(catalog.stale.is_empty(), "{:?}", catalog.stale);
    }
}
