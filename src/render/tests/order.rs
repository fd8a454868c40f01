//! Order of the Service chains in a full payload, and the list of chains before a partial one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::live::{KnownServices, payload};
use super::{http_service, one_endpoint};
use crate::model::{Service, ServiceName, ServiceState};
use crate::net::IpFamily;
use crate::render::{
    AppliedState, LiveChains, Options, PartialRestore, TreeThresholds, partial_payload,
};
use crate::rules::Backend;
use crate::ruleset::ServiceChain;

/// Services whose cluster IPs descend while their names ascend.
fn services() -> KnownServices {
    let service = |number: u8| {
        let name = ServiceName::new("shop", &format!("service-{number:02}"));
        let cluster_ip = IpAddr::from([10, 96, 0, 200 - number]);
        let slice = one_endpoint(&name, "http");
        (name, http_service(cluster_ip, slice))
    };
    KnownServices((0..20).map(service).collect::<BTreeMap<_, _>>())
}

/// Returns the Service chains of a payload in the order in which they are declared, and in that of
/// the rules that jump to them.
fn orders(tree_thresholds: TreeThresholds) -> [Vec<String>; 2] {
    let options = Options {
        tree_thresholds,
        ..Options::defaults(IpFamily::V4)
    };
    let text = payload(&services(), &options, &LiveChains::default());
    let is_of_service =
        |name: &&str| name.starts_with("KUBE-SVC-") && ServiceChain::parse(name).is_some();
    let declared = text.lines().filter_map(|line| line.strip_prefix(':'));
    let declared = declared.filter_map(|line| line.split(' ').next());
    let jumps = text.lines().filter(|line| line.contains("cluster IP"));
    let targets = jumps.filter_map(|line| line.rsplit(' ').next());
    [
        declared.filter(is_of_service).map(str::to_owned).collect(),
        targets.filter(is_of_service).map(str::to_owned).collect(),
    ]
}

#[test]
fn chains_have_the_order_of_the_rules_that_jump_to_them() {
    let [by_name, rules] = orders(TreeThresholds::FLAT);
    assert_eq!((by_name.len(), &by_name), (20, &rules));
    let [by_address, rules] = orders(TreeThresholds::TREE);
    assert_eq!(by_address, rules);
    assert!(by_address.iter().eq(by_name.iter().rev()));
}

/// The time of a search for a chain grows with the tree chains as well.
#[test]
fn many_changed_tree_chains_are_listed_first() {
    let options = Options {
        backend: Backend::Nft,
        tree_thresholds: TreeThresholds::TREE,
        ..Options::defaults(IpFamily::V4)
    };
    let KnownServices(mut all) = services();
    let (name, big) = all.first_key_value().unwrap();
    let (name, mut big) = (name.clone(), big.clone());
    let mut applied = AppliedState::default();
    applied.is_nat_printable = true;
    let mut render = |all: &BTreeMap<ServiceName, ServiceState>| {
        let (known, shape) = (KnownServices(all.clone()), PartialRestore::ChangedChains);
        let payload = partial_payload(&mut applied, &known, all.keys(), &options, shape);
        applied.written(payload.rendered);
        String::from_utf8(payload.text).unwrap()
    };
    let begins_with_list = |text: &str| text.contains("*nat\n-S\n");
    render(&all);
    for (addresses, is_listed) in [(1, false), (5_000, true), (5_001, false)] {
        let mut service = Service::clone(big.service.as_ref().unwrap());
        let ips =
            (0..addresses).map(|number: u32| IpAddr::from((0x0800_0000 + number).to_be_bytes()));
        service.external_ips = ips.collect();
        big.service = Some(service.into());
        all.insert(name.clone(), big.clone());
        let text = render(&all);
        assert_eq!(
            begins_with_list(&text),
            is_listed,
            "{addresses}: {} bytes",
            text.len()
        );
    }
}
