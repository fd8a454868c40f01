//! How rules tell pods from others, read off them.
//!
//! Apart because it is the one thing about clients that rules know.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::rules::{Network, Rule, RuleSet, Table};

/// What rules take for a pod of this node or cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Detector {
    /// By its address: in one of these.
    pub(super) networks: BTreeSet<Network>,
    /// By where it comes in; perhaps with a final `+`.
    pub(super) interface: Option<Box<str>>,
}

impl Detector {
    /// What the rules of one family say.
    pub(super) fn read(rules: &RuleSet) -> Self {
        let mut detector = Self::default();
        let services = rules
            .chains(Table::Nat)
            .filter(|(name, _)| name.starts_with("KUBE-S") || name.starts_with("KUBE-EXT-"));
        for rule in services.flat_map(|(_, chain)| &chain.rules) {
            if tells_pods(rule) {
                detector
                    .networks
                    .extend(rule.source.map(|asked| asked.value));
                let interface = rule.in_interface.as_ref();
                detector.interface = detector
                    .interface
                    .or_else(|| interface.map(|asked| asked.value.clone()));
            }
        }
        detector
    }

    /// Whether rules take that address for a pod's.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(ip))
    }

    /// An interface that no pod is behind, if that matters.
    pub(super) fn other_interface(&self) -> Option<Box<str>> {
        let asked = self.interface.as_deref()?;
        let beginning = asked.trim_end_matches('+');
        let mut names = ["eth0", "ens3"].into_iter();
        names
            .find(|name| !name.starts_with(beginning))
            .map(Box::from)
    }

    /// An interface that pods are behind. One that some rule is about is a real one, if it is only
    /// their beginnings that are known.
    pub(super) fn pod_interface(&self, rules: &RuleSet) -> Option<Box<str>> {
        let asked = self.interface.as_deref()?;
        let Some(beginning) = asked.strip_suffix('+') else {
            return Some(asked.into());
        };
        let chains = rules
            .chains(Table::Filter)
            .flat_map(|(_, chain)| &chain.rules);
        let names = chains.filter_map(|rule| rule.in_interface.as_ref());
        let mut real = names.filter(|asked| !asked.negated && !asked.value.ends_with('+'));
        let found = real.find(|asked| asked.value.starts_with(beginning));
        Some(found.map_or_else(
            || format!("{beginning}0").into(),
            |asked| asked.value.clone(),
        ))
    }
}

/// `! -s CIDR -j KUBE-MARK-MASQ` on the way to endpoints, or the short cut that pods take when
/// policy Local is only for others.
fn tells_pods(rule: &Rule) -> bool {
    let negated = rule.source.is_some_and(|asked| asked.negated)
        || rule
            .in_interface
            .as_ref()
            .is_some_and(|asked| asked.negated);
    let is_short_cut = || {
        rule.comment()
            .is_some_and(|text| text.starts_with("pod traffic for "))
    };
    match rule.target_chain() {
        Some("KUBE-MARK-MASQ") => negated,
        Some(_) => is_short_cut(),
        None => false,
    }
}
