//! Order of the Service chains in a full payload.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::live::{KnownServices, payload};
use super::one_endpoint;
use crate::model::{Service, ServiceName, ServicePort, ServiceState, SliceName};
use crate::net::{IpFamily, Port, Protocol};
use crate::render::{LiveChains, Options, TreeThresholds};
use crate::ruleset::ServiceChain;

/// Services whose cluster IPs descend while their names ascend.
fn services() -> KnownServices {
    let service = |number: u8| {
        let name = ServiceName::new("shop", &format!("service-{number:02}"));
        let port = ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: Port::new(80).unwrap(),
            node_port: None,
        };
        let cluster_ip = IpAddr::from([10, 96, 0, 200 - number]);
        let slice = (
            SliceName::new("shop", "slice"),
            one_endpoint(&name, "http").into(),
        );
        let state = ServiceState {
            service: Some(Service::plain(cluster_ip, Box::new([port])).into()),
            slices: vec![slice],
            ..ServiceState::default()
        };
        (name, state)
    };
    KnownServices((0..20).map(service).collect::<BTreeMap<_, _>>())
}

/// Returns the names of the Services in the order in which their chains are declared.
fn order(tree_thresholds: TreeThresholds) -> Vec<String> {
    let options = Options {
        tree_thresholds,
        ..Options::defaults(IpFamily::V4)
    };
    let text = payload(&services(), &options, &LiveChains::default());
    let declared = |line: &str| {
        let name = line.strip_prefix(':')?.split(' ').next()?;
        ServiceChain::parse(name)?;
        name.starts_with("KUBE-SVC-").then(|| name.to_owned())
    };
    let dispatch = |chain: &String| {
        let end = format!(" -j {chain}");
        let rule = text.lines().find(|line| line.ends_with(&end)).unwrap();
        let (_, name) = rule.split_once("shop/").unwrap();
        name.split(':').next().unwrap().to_owned()
    };
    let chains: Vec<String> = text.lines().filter_map(declared).collect();
    chains.iter().map(dispatch).collect()
}

#[test]
fn chains_have_the_order_of_the_rules_that_jump_to_them() {
    let by_name: Vec<String> = (0..20)
        .map(|number| format!("service-{number:02}"))
        .collect();
    let by_address: Vec<String> = by_name.iter().rev().cloned().collect();
    assert_eq!(order(TreeThresholds::FLAT), by_name);
    assert_eq!(order(TreeThresholds::TREE), by_address);
}
