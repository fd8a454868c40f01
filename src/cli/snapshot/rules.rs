//! Rules of both families with the facts of the host that they need.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use jiff::Timestamp;

use super::counters::RuleCounters;
use super::proxy_report::{Conflicts, ServiceNames};
use crate::ingest::ServiceObject;
use crate::inspect::catalog::{PortName, ProxyMode, RulesetSource, ServiceType};
use crate::inspect::explain::NodeRules;
use crate::net::{IpFamily, PerFamily};
use crate::rules::{Backend, Network, RuleSet, Table};
use crate::status::FamilyStatus;
use crate::text::quoted;

/// Rules and their origin.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct RuleSnapshot {
    /// Rules of each family; empty for a family that was not read.
    pub(in crate::cli) rules: PerFamily<RuleSet>,
    pub(in crate::cli) families: BTreeSet<IpFamily>,
    /// Tables that a dump does not contain; a kernel has none of these.
    pub(in crate::cli) missing_tables: PerFamily<BTreeSet<Table>>,
    /// Tables that the save program could not read: the kernel may have rules in them.
    pub(in crate::cli) unreadable_tables: PerFamily<BTreeSet<Table>>,
    /// Families of which the save program reports rules of the backend legacy and does not list
    /// them.
    pub(in crate::cli) families_with_legacy: BTreeSet<IpFamily>,
    /// Rules of a proxy in the backend that is not shown: packets traverse both.
    pub(in crate::cli) other_backends: PerFamily<Option<(Backend, RuleSet)>>,
    /// Sources of the rules, which decide whether entry jumps are expected.
    pub(in crate::cli) sources: PerFamily<RulesetSource>,
    pub(in crate::cli) node_addresses: BTreeSet<IpAddr>,
    /// Network of the pods, if a flag sets it; rules may not contain it.
    pub(in crate::cli) pods: PerFamily<Option<Network>>,
    /// Frontends that several Services declare; unknown for dumps.
    pub(in crate::cli) conflicts: PerFamily<Conflicts>,
    /// Services that the proxy on this node has in quarantine; unknown for dumps.
    pub(in crate::cli) quarantined: PerFamily<ServiceNames>,
    /// Services that lack rules because they exceed a limit; only objects show it.
    pub(in crate::cli) over_limit: PerFamily<ServiceNames>,
    /// Types of the Services that rules are rendered from; `None` for rules without objects.
    pub(in crate::cli) service_types: Option<ServiceTypes>,
    /// Counters in dumps; a kernel is read for them alone.
    pub(in crate::cli) counters: PerFamily<RuleCounters>,
    pub(in crate::cli) origin: RuleOrigin,
    /// Time of this state of the node; unknown for dumps and desired rules.
    pub(in crate::cli) observed_at: Option<Timestamp>,
}

/// Types of Services by namespace and name.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct ServiceTypes(BTreeMap<(Box<str>, Box<str>), ServiceType>);

impl ServiceTypes {
    pub(super) fn read<'o>(objects: impl IntoIterator<Item = &'o ServiceObject>) -> Self {
        let of_object = |object: &ServiceObject| {
            let key = (
                object.metadata.namespace.as_str().into(),
                object.metadata.name.as_str().into(),
            );
            Some((key, ServiceType::from_spec(&object.spec.type_)?))
        };
        Self(objects.into_iter().filter_map(of_object).collect())
    }

    /// Returns the type of the Service of a service port.
    pub(in crate::cli) fn of(&self, port: &PortName) -> Option<ServiceType> {
        let key = (port.namespace().into(), port.service().into());
        self.0.get(&key).copied()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) enum RuleOrigin {
    /// Kernel of this host, read by the programs of a backend.
    Live(Backend),
    /// Daemon on this node.
    Daemon(WrittenRules),
    /// Daemon on another node.
    OtherDaemon(WrittenRules),
    /// Kernel of another node, read by the programs in a Pod.
    Exec {
        node: String,
        /// Namespace and name of the Pod.
        pod: String,
    },
    /// Dumps in files.
    Saved(Vec<PathBuf>),
    /// History in a folder, at a moment.
    Past(PathBuf, Timestamp),
    /// Rendered from objects.
    #[default]
    Desired,
}

impl RuleOrigin {
    /// Reports whether the rules are those of this node, now.
    pub(in crate::cli) const fn is_of_this_node(&self) -> bool {
        matches!(self, Self::Live(_) | Self::Daemon(_))
    }

    /// Reports whether the rules are those of a host whose addresses cannot be read here.
    pub(in crate::cli) const fn is_of_another_host(&self) -> bool {
        matches!(
            self,
            Self::Saved(_) | Self::Exec { .. } | Self::OtherDaemon(_)
        )
    }

    /// Returns a sentence on the rules that a source lacks.
    pub(in crate::cli) fn note(&self) -> Option<&'static str> {
        match self {
            Self::Daemon(_) => Some(
                "rules of other programs and policies of built-in chains are not among them, and \
                 may drop packets: --kernel reads them",
            ),
            Self::OtherDaemon(_) => Some(
                "rules of other programs and policies of built-in chains are not among them, and \
                 may drop packets: on that node, --kernel reads them",
            ),
            Self::Past(..) => Some(
                "rules of other programs and policies of built-in chains are not among them, and \
                 may have dropped packets",
            ),
            _ => None,
        }
    }
}

impl fmt::Display for RuleOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live(backend) => write!(f, "the kernel's rules ({backend})"),
            Self::Daemon(written) | Self::OtherDaemon(written) => written.fmt(f),
            Self::Exec { node, pod } => {
                write!(
                    f,
                    "the kernel's rules of {node}, by iptables-save in Pod {pod}"
                )
            }
            Self::Saved(paths) => f.write_str(&quoted(paths.iter().map(|path| path.display()))),
            Self::Past(folder, at) => write!(f, "the rules at {at}, by `{}`", folder.display()),
            Self::Desired => f.write_str("the desired rules"),
        }
    }
}

/// Rules that a daemon wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct WrittenRules {
    pub(super) node: String,
    pub(super) version: String,
    /// Backend that it wrote them to.
    pub(super) backend: Backend,
    pub(super) verified: Verified,
}

/// Result of the last comparison of all rules in the kernel with those that the daemon wrote, the
/// worst of both families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Verified {
    /// The kernel had all of them this many seconds ago.
    Clean(i64),
    /// There was none yet.
    NotYet,
    /// Some were changed, and are repaired by now, or about to be.
    Changed,
}

impl Verified {
    pub(super) fn of<'f>(families: impl Iterator<Item = &'f FamilyStatus>, now: Timestamp) -> Self {
        let mut verdict = Self::Clean(0);
        for family in families {
            verdict = match (&family.verification, verdict) {
                (_, Self::Changed) => Self::Changed,
                (Some(last), _) if !last.is_clean => Self::Changed,
                (None, _) | (_, Self::NotYet) => Self::NotYet,
                (Some(last), Self::Clean(oldest)) => {
                    Self::Clean(oldest.max(now.duration_since(last.at).as_secs()))
                }
            };
        }
        verdict
    }
}

impl fmt::Display for WrittenRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            version,
            backend,
            verified,
        } = self;
        write!(f, "rules of {node} ({backend}), written by deltaproxy")?;
        if let Some(version) = version
            .split(',')
            .next()
            .filter(|version| !version.is_empty())
        {
            write!(f, " {version}")?;
        }
        match verified {
            Verified::Clean(seconds) => write!(f, ", verified {seconds} s ago"),
            Verified::NotYet => f.write_str(", not verified yet"),
            Verified::Changed => f.write_str(", last verification found changed rules"),
        }
    }
}

impl RuleSnapshot {
    /// Returns the families whose nat table is not there to read: endpoints are in no other one.
    pub(in crate::cli) fn families_without_nat(&self) -> BTreeSet<IpFamily> {
        let families = self.families.iter().copied();
        let is_without = |family: &IpFamily| {
            let missing = self.missing_tables.get(*family);
            let unreadable = self.unreadable_tables.get(*family);
            missing.contains(&Table::Nat) || unreadable.contains(&Table::Nat)
        };
        families.filter(is_without).collect()
    }

    /// Returns the rules of each family that was read, as `explain` traces packets through them.
    /// One without a dump is unknown, which is not the same as without rules.
    pub(in crate::cli) fn node_rules(&self, node_ips: &[IpAddr]) -> Vec<NodeRules<'_>> {
        let mut addresses = self.node_addresses.clone();
        addresses.extend(node_ips.iter().map(IpAddr::to_canonical));
        let rules = self.rules.pairs();
        let read = rules.filter(|(family, _)| self.families.contains(family));
        let of_family = |(family, rules)| {
            // A node may do without mangle; then it is not in a complete dump.
            let mut missing_tables = self.missing_tables.get(family).clone();
            missing_tables.remove(&Table::Mangle);
            let node = NodeRules::new(rules, family, &addresses).without(missing_tables);
            let conflicts = self.conflicts.get(family).lost.clone();
            let other_backend = self.other_backends.get(family).as_ref();
            let other_backend = other_backend.map(|(backend, rules)| (*backend, rules));
            node.with_pods(*self.pods.get(family))
                .with_conflicts(conflicts)
                .with_other_backend(other_backend)
        };
        read.map(of_family).collect()
    }

    /// Reports whether this machine has no rules of any proxy, in either backend.
    pub(in crate::cli) fn is_of_no_node(&self) -> bool {
        let (mut rules, mut others) = (self.rules.pairs(), self.other_backends.pairs());
        matches!(self.origin, RuleOrigin::Live(_))
            && !rules.any(|(_, rules)| ProxyMode::of(rules).is_some())
            && !others.any(|(_, other)| other.is_some())
    }

    /// Returns a sentence if the rules are not those of a kube-proxy in mode iptables.
    pub(in crate::cli) fn absence(&self) -> Option<String> {
        let rules = self.families.iter().map(|family| self.rules.get(*family));
        let modes: BTreeSet<ProxyMode> = rules.filter_map(ProxyMode::of).collect();
        let origin = &self.origin;
        if modes.contains(&ProxyMode::Iptables) || self.origin == RuleOrigin::Desired {
            return None;
        }
        Some(if modes.contains(&ProxyMode::Ipvs) {
            format!(
                "{origin}: rules of a kube-proxy in IPVS mode, which has Services in tables of IPVS\n\
                 hint: run `ipvsadm -Ln` on the node to list them"
            )
        } else {
            format!(
                "{origin}: no rules of a kube-proxy in iptables mode\n\
                 hint: in nftables mode, `nft list table ip kube-proxy` lists its rules"
            )
        })
    }
}
