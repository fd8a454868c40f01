//! A tree of Services with one rule each, for tests.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::dispatch_tree::{DispatchTree, TreeUpdate, WrittenChain};
use crate::model::ServiceName;
use crate::render::options::PartialRestore;
use crate::render::service::{AppliedService, DispatchRule};
use crate::ruleset::{DispatchChain, DispatchDestination};

/// Namespace of the Services.
pub(super) const NAMESPACE: &str = "namespace";

/// As long as Kubernetes allows for a namespace or a Service.
pub(super) const LONGEST: &str = "a-name-of-63-characters-is-the-longest-that-kubernetes-allows--";

/// Tree of Services, most with one rule, and the texts of their rules.
pub(super) struct Scene {
    pub(super) tree: DispatchTree,
    pub(super) services: BTreeMap<ServiceName, AppliedService>,
    namespace: &'static str,
}

impl Scene {
    pub(super) fn new(namespace: &'static str) -> Self {
        Self {
            tree: DispatchTree::new(DispatchChain::NatServices, String::new()),
            services: BTreeMap::new(),
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
        self.add_service(name, Box::new([rule]));
    }

    pub(super) fn add_service(&mut self, name: ServiceName, dispatch: Box<[DispatchRule]>) {
        self.tree.replace(&name, &[], &dispatch);
        let service = AppliedService {
            dispatch,
            ..AppliedService::default()
        };
        self.services.insert(name, service);
    }

    fn remove_destination(&mut self, destination: DispatchDestination) -> DispatchRule {
        let (name, _) = self.service_of(destination);
        let service = self.services.remove(&name).unwrap();
        self.tree.replace(&name, &service.dispatch, &[]);
        service.dispatch[0].clone()
    }

    /// Returns the number of rules in the largest leaf.
    pub(super) fn largest_leaf(&mut self) -> usize {
        let changes = self.rendered(PartialRestore::Kep3453);
        let leaves = changes.written.iter();
        let rules_of_services = |text: &str| text.matches("--comment").count();
        leaves
            .map(|chain| rules_of_services(&chain.rules))
            .max()
            .unwrap()
    }

    pub(super) fn changes(&mut self) -> Changes {
        self.rendered(PartialRestore::ChangedChains)
    }

    /// Renders the changes of the tree, and records them as written.
    pub(super) fn rendered(&mut self, extent: PartialRestore) -> Changes {
        let (written, update) = self.tree.render(extent, &self.services);
        let changes = Changes::of(written, &update);
        self.tree.written(update);
        changes
    }

    /// Returns the Service of a destination. In the longest namespace its name is as long.
    fn service_of(&self, destination: DispatchDestination) -> (ServiceName, IpAddr) {
        let (kind, ip) = match destination {
            DispatchDestination::ClusterIp(ip) => ("service", ip),
            DispatchDestination::ExternalIp(ip) => ("external", ip),
            other @ DispatchDestination::Port(..) => panic!("{other:?}"),
        };
        let mut name = format!("{kind}-{ip}");
        if self.namespace == LONGEST {
            name = format!("{name:-<63}");
        }
        (ServiceName::new(self.namespace, &name), ip)
    }

    /// Returns the bytes that the last changes write.
    pub(super) fn written(&mut self) -> usize {
        bytes_of(&self.changes())
    }
}

/// Chains that an update writes and deletes.
#[derive(Debug)]
pub(super) struct Changes {
    /// Written tree chains.
    pub(super) written: Vec<WrittenChain>,
    /// Rules of the root, if it is written.
    pub(super) root: Option<String>,
    pub(super) deleted: Vec<Box<str>>,
    /// Names of the tree chains that were rendered, whether they are written or not.
    pub(super) rendered: Vec<Box<str>>,
}

impl Changes {
    pub(super) fn of(mut written: Vec<WrittenChain>, update: &TreeUpdate) -> Self {
        let is_root = |chain: &WrittenChain| {
            let mut all = DispatchChain::ALL.iter();
            all.any(|dispatch| *chain.name == *dispatch.name())
        };
        // The root comes last.
        let root = written.pop_if(|chain| is_root(chain));
        Self {
            written,
            root: root.map(|chain| chain.rules),
            deleted: update.deleted.iter().cloned().collect(),
            rendered: update.chain_names().map(Box::from).collect(),
        }
    }
}

/// Returns the bytes that a restore of the changes writes in dispatch chains.
pub(super) fn bytes_of(changes: &Changes) -> usize {
    let mut text = Vec::new();
    for chain in &changes.written {
        chain.write(&mut text);
    }
    let root = changes.root.as_ref().map_or(0, String::len);
    let deleted = changes.deleted.iter().map(|name| 2 * name.len() + 14);
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
