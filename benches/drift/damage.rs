//! What another program does to the rules of the client's Service.

use crate::client::CLUSTER_IP;
use crate::shared::subject::Node;

/// Each takes the Service away from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    EndpointRule,
    ServiceRule,
    DispatchRule,
    Jump,
    DispatchChain,
    NatTable,
}

impl Damage {
    pub const ALL: [Self; 6] = [
        Self::EndpointRule,
        Self::ServiceRule,
        Self::DispatchRule,
        Self::Jump,
        Self::DispatchChain,
        Self::NatTable,
    ];

    /// As in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndpointRule => "the DNAT rule of an endpoint deleted",
            Self::ServiceRule => "the rule of a Service's chain deleted",
            Self::DispatchRule => "the dispatch rule of the Service deleted",
            Self::Jump => "the jump from `OUTPUT` deleted",
            Self::DispatchChain => "`-F KUBE-SERVICES`",
            Self::NatTable => "`iptables -t nat -F`",
        }
    }
}

/// Commands that do each damage, looked up once: names of chains stay the same.
pub struct Damages(Vec<(Damage, Vec<String>)>);

impl Damages {
    /// Of the rules that the node has now.
    pub fn of(node: &Node) -> Self {
        let rules = node.iptables_nat(&["-S".to_owned()]);
        let find = |texts: &[&str]| {
            let found = rules
                .lines()
                .find(|line| texts.iter().all(|text| line.contains(text)));
            let line = found.unwrap_or_else(|| panic!("no rule with {texts:?}"));
            shlex::split(line).expect("words")
        };
        // In `KUBE-SERVICES`, or in the tree chain of its address, which has jumps without a port.
        let dispatch = find(&[CLUSTER_IP, "--dport", "-j KUBE-SVC-"]);
        let service_chain = dispatch.last().unwrap().clone();
        let service = find(&[&format!("-A {service_chain} "), "-j KUBE-SEP-"]);
        let endpoint_chain = service.last().unwrap().clone();
        let endpoint = find(&[&format!("-A {endpoint_chain} "), "-j DNAT"]);
        let jump = find(&["-A OUTPUT", "-j KUBE-SERVICES"]);
        let delete = |mut words: Vec<String>| {
            "-D".clone_into(&mut words[0]);
            words
        };
        let flush = |chain: &str| vec!["-F".to_owned(), chain.to_owned()];
        Self(vec![
            (Damage::EndpointRule, delete(endpoint)),
            (Damage::ServiceRule, delete(service)),
            (Damage::DispatchRule, delete(dispatch)),
            (Damage::Jump, delete(jump)),
            (Damage::DispatchChain, flush("KUBE-SERVICES")),
            (Damage::NatTable, vec!["-F".to_owned()]),
        ])
    }

    /// Does it.
    pub fn inflict(&self, node: &Node, damage: Damage) {
        let (_, command) = self.0.iter().find(|(of, _)| *of == damage).unwrap();
        node.iptables_nat(command);
    }
}
