//! Full payloads for kernels that have rules already.

use std::collections::BTreeMap;

use crate::model::{ServiceName, ServiceState};
use crate::net::IpFamily;
use crate::render::{FullPayload, LiveChains, Options};
use crate::rules::{Payload, Rule, Table};

/// The Services of a cluster. Without any, every Service chain in the kernel is stale.
pub(super) type KnownServices = BTreeMap<ServiceName, ServiceState>;

/// Renders the full payload.
pub(super) fn payload(services: &KnownServices, options: &Options, live: &LiveChains) -> String {
    let mut full = FullPayload::new(services, options, live);
    let mut text = Vec::new();
    while full.write_next(&mut text) {}
    String::from_utf8(text).unwrap()
}

#[test]
fn a_stale_chain_in_a_third_party_rule_that_cannot_be_parsed_is_kept() {
    let rule = "-m comment --comment \"no end -j KUBE-SEP-A";
    assert!(rule.parse::<Rule>().is_err());
    let save = format!("*nat\n:KUBE-SEP-A - [0:0]\n:KUBE-SEP-B - [0:0]\n-A cali-mine {rule}\n");
    let mut live = LiveChains::default();
    live.read_table(Table::Nat, &save);
    let options = Options::defaults(IpFamily::V4);
    let text = payload(&KnownServices::new(), &options, &live);
    let deleted = text.lines().filter(|line| line.starts_with("-X"));
    assert_eq!(deleted.collect::<Vec<_>>(), ["-X KUBE-SEP-B"]);
}
