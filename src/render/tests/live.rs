//! Full payloads for kernels that have rules already.

use std::collections::BTreeMap;

use crate::model::{ServiceName, ServiceState, Services};
use crate::net::IpFamily;
use crate::render::{FullPayload, LiveChains, Options};
use crate::rules::{Backend, Payload, Table};

/// Cluster with these Services. Without any, every Service chain in the kernel is stale.
pub(super) struct KnownServices(pub(super) BTreeMap<ServiceName, ServiceState>);

impl Services for KnownServices {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_> {
        Box::new(self.0.iter())
    }

    fn get(&self, name: &ServiceName) -> Option<&ServiceState> {
        self.0.get(name)
    }
}

fn options(backend: Backend) -> Options {
    Options {
        backend,
        has_localhost_node_ports: false,
        ..Options::defaults(IpFamily::V4)
    }
}

/// Returns the lines of the full payload that begin with one of `beginnings`.
fn lines(backend: Backend, saves: &[(Table, &str)], beginnings: &[&str]) -> Vec<String> {
    let mut live = LiveChains::default();
    for (table, save) in saves {
        live.read_table(*table, save);
    }
    let (services, options) = (KnownServices(BTreeMap::new()), options(backend));
    let text = payload(&services, &options, &live);
    let wanted = |line: &&str| {
        beginnings
            .iter()
            .any(|beginning| line.starts_with(beginning))
    };
    text.lines().filter(wanted).map(str::to_owned).collect()
}

/// Renders the full payload.
pub(super) fn payload(services: &KnownServices, options: &Options, live: &LiveChains) -> String {
    let mut full = FullPayload::new(services, options, live);
    let mut text = Vec::new();
    while full.write_next(&mut text) {}
    String::from_utf8(text).unwrap()
}

#[test]
fn stale_chains_are_emptied_before_any_is_deleted() {
    let save = "*nat\n:KUBE-SVC-A - [0:0]\n:KUBE-SEP-B - [0:0]\n:KUBE-XLB-C - [0:0]\n\
        :KUBE-KUBELET-CANARY - [0:0]\n-A KUBE-SVC-A -j KUBE-SEP-B\n-A KUBE-XLB-C -j KUBE-SEP-B\n";
    let expected = [
        ":KUBE-SEP-B - [0:0]",
        ":KUBE-SVC-A - [0:0]",
        ":KUBE-XLB-C - [0:0]",
        "-X KUBE-SEP-B",
        "-X KUBE-SVC-A",
        "-X KUBE-XLB-C",
    ];
    let found = lines(
        Backend::Legacy,
        &[(Table::Nat, save)],
        &[":KUBE-S", ":KUBE-X", ":KUBE-KUBELET", "-X"],
    );
    let found: Vec<_> = found
        .iter()
        .filter(|line| !line.starts_with(":KUBE-SERVICES"))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_stale_chain_that_a_third_party_rule_references_is_emptied_and_kept() {
    let save = "*nat\n:KUBE-SEP-A - [0:0]\n:KUBE-SEP-B - [0:0]\n:cali-mine - [0:0]\n\
        -A cali-mine -p tcp -j KUBE-SEP-A\n-A OUTPUT -g KUBE-SVC-GONE\n";
    let found = lines(Backend::Nft, &[(Table::Nat, save)], &[":KUBE-SEP", "-X"]);
    assert_eq!(
        found,
        [
            ":KUBE-SEP-A - [0:0]",
            ":KUBE-SEP-B - [0:0]",
            "-X KUBE-SEP-B"
        ]
    );
}

#[test]
fn a_stale_chain_in_a_third_party_rule_that_cannot_be_parsed_is_kept() {
    let rule = "-A cali-mine -m comment --comment \"no end -j KUBE-SEP-A";
    assert!(
        rule.split_once(' ')
            .unwrap()
            .1
            .parse::<crate::rules::Rule>()
            .is_err()
    );
    let save = format!("*nat\n:KUBE-SEP-A - [0:0]\n:KUBE-SEP-B - [0:0]\n{rule}\n");
    let found = lines(Backend::Nft, &[(Table::Nat, &save)], &["-X"]);
    assert_eq!(found, ["-X KUBE-SEP-B"]);
}

#[test]
fn existing_jumps_are_not_inserted_again() {
    let nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A OUTPUT -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n";
    let found = lines(
        Backend::Nft,
        &[(Table::Nat, nat)],
        &["-I OUTPUT -m comment", "-I P"],
    );
    let expected = [
        "-I OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
        "-I POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING",
    ];
    assert_eq!(found, expected);
}

#[test]
fn kubelets_firewall_chain_is_created_but_not_emptied_without_a_rule_for_it() {
    let header = [":KUBE-FIREWALL - [0:0]"];
    let beginnings = &[":KUBE-FIREWALL"];
    assert_eq!(
        lines(Backend::Legacy, &[(Table::Filter, "*filter\n")], beginnings),
        header
    );
    let save = "*filter\n:KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -j DROP\n";
    assert!(lines(Backend::Legacy, &[(Table::Filter, save)], beginnings).is_empty());
}

#[test]
fn without_a_listing_all_jumps_are_inserted() {
    assert_eq!(lines(Backend::Nft, &[], &["-I"]).len(), 14);
}
