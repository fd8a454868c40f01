//! Payloads for nft with nat in blocks: what packets meet between two blocks.

use super::live::{KnownServices, payload};
use super::{http_service, one_endpoint};
use crate::model::ServiceName;
use crate::net::IpFamily;
use crate::render::{AppliedState, LiveChains, Options, PartialRestore, partial_payload};
use crate::rules::{Backend, RuleSet, Table};

const ENDPOINTS: u8 = 60;

/// Services whose endpoints are in this subnet of 10.0.0.0/8.
fn services(count: u8, subnet: u8) -> KnownServices {
    let service = |number: u8| {
        let name = ServiceName::new("shop", &format!("service-{number:03}"));
        let mut slice = one_endpoint(&name, "http");
        let endpoint = slice.endpoints.first().unwrap().clone();
        let endpoints = (1..=ENDPOINTS).map(|host| {
            let mut endpoint = endpoint.clone();
            endpoint.ip = [10, subnet, number, host].into();
            endpoint
        });
        slice.endpoints = endpoints.collect();
        let cluster_ip = [10, 96, 0, number].into();
        (name, http_service(cluster_ip, slice))
    };
    (0..count).map(service).collect()
}

fn full(rules: &RuleSet, services: &KnownServices, backend: Backend) -> String {
    let mut live = LiveChains::default();
    let save = rules.to_save_text();
    for table in [Table::Filter, Table::Nat] {
        let begin = format!("*{table}\n");
        let of_table = save.split_once(&begin).map_or("", |(_, rest)| rest);
        live.read_table(table, of_table.split("COMMIT").next().unwrap());
    }
    payload(services, &options(backend), &live)
}

fn options(backend: Backend) -> Options {
    Options {
        backend,
        ..Options::defaults(IpFamily::V4)
    }
}

/// The rules of a kernel that was empty, restored at once.
fn restored(services: &KnownServices) -> String {
    let mut rules = RuleSet::default();
    let text = full(&rules, services, Backend::Legacy);
    rules.apply(&text).unwrap();
    rules.to_save_text()
}

/// Returns the Services that clients reach, and checks that each has all of its endpoints.
fn reached(rules: &RuleSet) -> usize {
    let nat = |name: &str| rules.chain(Table::Nat, name).unwrap();
    let Some(dispatch) = rules.chain(Table::Nat, "KUBE-SERVICES") else {
        return 0;
    };
    let targets = dispatch.rules.iter().filter_map(|rule| rule.target_chain());
    let services: Vec<&str> = targets
        .filter(|name| name.starts_with("KUBE-SVC-"))
        .collect();
    for service in &services {
        let targets = nat(service)
            .rules
            .iter()
            .filter_map(|rule| rule.target_chain());
        let endpoints: Vec<&str> = targets
            .filter(|name| name.starts_with("KUBE-SEP-"))
            .collect();
        assert_eq!(endpoints.len(), usize::from(ENDPOINTS), "{service}");
        for endpoint in endpoints {
            assert_eq!(nat(endpoint).rules.len(), 2, "{endpoint}");
        }
    }
    services.len()
}

/// Restores a payload block by block; returns the number of blocks, and the numbers of Services
/// that were reached after each of them.
fn restore(rules: &mut RuleSet, text: &str) -> (usize, Vec<usize>) {
    let blocks: Vec<&str> = text.split_inclusive("COMMIT\n").collect();
    let after = blocks.iter().map(|block| {
        rules.apply(block).unwrap();
        reached(rules)
    });
    let mut after: Vec<usize> = after.collect();
    after.dedup();
    (blocks.len(), after)
}

#[test]
fn every_service_is_reached_whole_between_two_blocks() {
    let [first, moved, fewer] = [services(150, 1), services(150, 2), services(100, 2)];
    let mut rules = RuleSet::default();
    let text = full(&rules, &first, Backend::Nft);
    // filter, 17 of at most 600 chains, dispatch chains, mangle.
    assert_eq!(restore(&mut rules, &text), (20, vec![0, 150]));
    // All endpoints have other addresses: their chains are stale.
    let text = full(&rules, &moved, Backend::Nft);
    assert_eq!(restore(&mut rules, &text).1, [150]);
    // More stale chains than a block has; those of endpoints, to which others jump, come first.
    let text = full(&rules, &fewer, Backend::Nft);
    assert_eq!(restore(&mut rules, &text).1, [150, 100]);
    assert_eq!(rules.to_save_text(), restored(&fewer));
}

#[test]
fn every_service_is_reached_whole_between_two_blocks_of_a_partial_payload() {
    let options = options(Backend::Nft);
    let mut rules = RuleSet::default();
    let text = full(&rules, &services(0, 1), Backend::Nft);
    restore(&mut rules, &text);
    let (mut applied, names) = (AppliedState::default(), services(60, 1));
    for (now, expected) in [
        (services(60, 1), vec![0, 60]),
        (services(60, 2), vec![60]),
        (services(20, 2), vec![20]),
    ] {
        let shape = PartialRestore::ChangedChains;
        let payload = partial_payload(&mut applied, &now, names.keys(), &options, shape);
        applied.written(payload.rendered);
        let text = String::from_utf8(payload.text).unwrap();
        let (blocks, reached) = restore(&mut rules, &text);
        assert!(blocks > 5, "{blocks}");
        assert_eq!(reached, expected);
    }
    assert_eq!(rules.to_save_text(), restored(&services(20, 2)));
}

/// The first block was applied, the next one failed: a later payload writes both, and the chains
/// that only the failed one knew are deleted.
#[test]
fn a_partial_payload_that_fails_in_a_block_is_made_up_for() {
    let options = options(Backend::Nft);
    let shape = PartialRestore::ChangedChains;
    let mut rules = RuleSet::default();
    let text = full(&rules, &services(0, 1), Backend::Nft);
    restore(&mut rules, &text);
    let (mut applied, names) = (AppliedState::default(), services(60, 1));
    let render = |applied: &mut AppliedState, now: &KnownServices| {
        let payload = partial_payload(applied, now, names.keys(), &options, shape);
        (String::from_utf8(payload.text).unwrap(), payload.rendered)
    };
    let (text, rendered) = render(&mut applied, &services(60, 1));
    restore(&mut rules, &text);
    applied.written(rendered);
    for applied_blocks in [1, 8, 14] {
        let (text, rendered) = render(&mut applied, &services(60, 2));
        let blocks: Vec<&str> = text.split_inclusive("COMMIT\n").collect();
        restore(&mut rules, &blocks[..applied_blocks].concat());
        applied.maybe_written(rendered);
        let (text, rendered) = render(&mut applied, &services(60, 3));
        restore(&mut rules, &text);
        applied.written(rendered);
        assert_eq!(rules.to_save_text(), restored(&services(60, 3)));
    }
}
