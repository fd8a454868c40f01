//! Order of the Service chains in a full payload.

use std::net::IpAddr;

use super::live::{KnownServices, payload};
use super::{http_service, one_endpoint};
use crate::model::ServiceName;
use crate::net::IpFamily;
use crate::render::{LiveChains, Options, TreeThresholds};
use crate::ruleset::ServiceChain;

/// Services whose cluster IPs descend while their names ascend.
fn services() -> KnownServices {
    let service = |number: u8| {
        let name = ServiceName::new("shop", &format!("service-{number:02}"));
        let cluster_ip = IpAddr::from([10, 96, 0, 200 - number]);
        let slice = one_endpoint(&name, "http");
        (name, http_service(cluster_ip, slice))
    };
    (0..20).map(service).collect()
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
