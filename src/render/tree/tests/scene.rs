//! A tree of Services with one rule each, for tests.

use std::net::IpAddr;

use hashbrown::HashMap;

use super::super::dispatch_tree::TextOfRule;
use super::super::{DispatchTree, TreeChanges, TreeExtent};
use crate::model::ServiceName;
use crate::render::service::DispatchRule;
use crate::ruleset::{DispatchChain, DispatchDestination};

/// Namespace of the Services.
pub(super) const NAMESPACE: &str = "namespace";

/// As long as Kubernetes allows for a namespace or a Service.
pub(super) const LONGEST_NAME: &str =
    "a-name-of-63-characters-is-the-longest-that-kubernetes-allows--";

/// Tree of Services with one rule each, and the texts of their rules.
pub(super) struct Scene {
    pub(super) tree: DispatchTree,
    pub(super) rules: HashMap<ServiceName, DispatchRule>,
    namespace: &'static str,
}

impl Scene {
    pub(super) fn new(namespace: &'static str) -> Self {
        Self {
            tree: DispatchTree::new(DispatchChain::NatServices, String::new()),
            rules: HashMap::new(),
            namespace,
        }
    }

    pub(super) fn with(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self::in_namespace(NAMESPACE, addresses)
    }

    pub(super) fn in_namespace(
        namespace: &'static str,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        let mut scene = Self::new(namespace);
        for ip in addresses {
            scene.add(ip);
        }
        scene.changes();
        scene
    }

    pub(super) fn add(&mut self, ip: IpAddr) {
        self.add_destination(DispatchDestination::ClusterIp(ip));
    }

    pub(super) fn remove(&mut self, ip: IpAddr) -> DispatchRule {
        self.remove_destination(DispatchDestination::ClusterIp(ip))
    }

    pub(super) fn add_external(&mut self, ip: IpAddr) {
        self.add_destination(DispatchDestination::ExternalIp(ip));
    }

    pub(super) fn remove_external(&mut self, ip: IpAddr) {
        self.remove_destination(DispatchDestination::ExternalIp(ip));
    }

    fn add_destination(&mut self, destination: DispatchDestination) {
        let (name, ip) = self.service_of(destination);
        let text = format!(
            " -m comment --comment \"{name}:http cluster IP\" -m tcp -p tcp -d {ip} --dport 80 \
             -j KUBE-SVC-XPGD46QRK7WJZT7O\n"
        );
        let rule = DispatchRule {
            chain: DispatchChain::NatServices,
            destination,
            text: text.into_bytes().into(),
        };
        self.tree.replace(&name, &[], std::slice::from_ref(&rule));
        self.rules.insert(name, rule);
    }

    fn remove_destination(&mut self, destination: DispatchDestination) -> DispatchRule {
        let (name, _) = self.service_of(destination);
        let rule = self.rules.remove(&name).unwrap();
        self.tree.replace(&name, std::slice::from_ref(&rule), &[]);
        rule
    }

    /// Returns the number of rules in the largest leaf.
    pub(super) fn largest_leaf(&mut self) -> usize {
        let changes = self.rendered(TreeExtent::AllChains);
        let leaves = changes.written.iter();
        let rules_of_services = |text: &str| text.matches("--comment").count();
        leaves
            .map(|chain| rules_of_services(&chain.rules))
            .max()
            .unwrap()
    }

    pub(super) fn changes(&mut self) -> TreeChanges {
        self.rendered(TreeExtent::ChangedRules)
    }

    pub(super) fn rendered(&mut self, extent: TreeExtent) -> TreeChanges {
        let rules = &self.rules;
        written(&mut self.tree, extent, &|name, _| &rules[name].text)
    }

    /// Returns the Service of a destination. In the longest namespace its name is as long.
    fn service_of(&self, destination: DispatchDestination) -> (ServiceName, IpAddr) {
        let (kind, ip) = match destination {
            DispatchDestination::ClusterIp(ip) => ("service", ip),
            DispatchDestination::ExternalIp(ip) => ("external", ip),
            other => panic!("{other:?}"),
        };
        let mut name = format!("{kind}-{ip}");
        if self.namespace == LONGEST_NAME {
            name = format!("{name:-<63}");
        }
        (ServiceName::new(self.namespace, &name), ip)
    }

    /// Returns the bytes that the last changes write.
    pub(super) fn written(&mut self) -> usize {
        bytes_of(&self.changes())
    }
}

/// Renders the changes of a tree, and records them as written.
pub(super) fn written(
    tree: &mut DispatchTree,
    extent: TreeExtent,
    text_of: TextOfRule<'_, '_>,
) -> TreeChanges {
    let changes = tree.render(extent, text_of);
    tree.written(changes.rendered.clone());
    changes
}

/// Returns the bytes that a restore of the changes writes in dispatch chains.
pub(super) fn bytes_of(changes: &TreeChanges) -> usize {
    let mut text = Vec::new();
    changes.write_chains(&mut text);
    let root = changes.root.as_ref().map_or(0, String::len);
    let deleted = changes
        .rendered
        .deleted
        .iter()
        .map(|name| 2 * name.len() + 14);
    text.len() + root + deleted.sum::<usize>()
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Addresses spread over a range, each once.
pub(super) fn addresses(count: u32, first: [u8; 4], bits: u32) -> impl Iterator<Item = IpAddr> {
    // An odd factor permutes the numbers of a power of two.
    let mask = (1_u32 << bits) - 1;
    let at = move |n: u32| n.wrapping_mul(2_654_435_761) & mask;
    (0..count).map(move |n| IpAddr::V4((u32::from_be_bytes(first) + at(n)).into()))
}
