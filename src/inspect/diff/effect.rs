//! Effects of a difference on the traffic of a service port, and the sentence for each.
//!
//! Every output format is made of these, so that all report the same facts. `before` is the live
//! side, `after` the desired one.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use super::color;
use crate::inspect::catalog::{FrontendDisposition, FrontendView, Policy};
use crate::rules::{Network, Share};

/// One effect on traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Only the desired side has this frontend.
    FrontendAdded(FrontendView),
    /// Only the live side has this frontend.
    FrontendRemoved(FrontendView),
    /// Both sides have a frontend, with different dispositions.
    DispositionChanged {
        /// Frontend of the desired side.
        frontend: FrontendView,
        /// Disposition on the live side.
        before: FrontendDisposition,
    },
    /// The internal or the external traffic policy differs.
    PolicyChanged {
        /// Traffic that the policy is for.
        traffic: Traffic,
        /// Policy on the live side; `None` if rules do not show it.
        before: Option<Policy>,
        /// Policy on the desired side.
        after: Option<Policy>,
    },
    /// The endpoints of some frontends differ.
    EndpointsChanged(EndpointChange),
    /// The endpoints are the same, and the share of one of them differs.
    ShareChanged {
        /// Policy under which it has the share.
        policy: Policy,
        /// Address of the endpoint.
        endpoint: SocketAddr,
        /// Share on the live side.
        before: Share,
        /// Share on the desired side.
        after: Share,
    },
    /// The timeout of session affinity differs; `None`: no affinity.
    AffinityChanged {
        /// Timeout on the live side.
        before: Option<Duration>,
        /// Timeout on the desired side.
        after: Option<Duration>,
    },
    /// The clients that the load balancer admits differ.
    SourceRangesChanged {
        /// Ranges of the desired side only.
        added: Vec<Network>,
        /// Ranges of the live side only.
        removed: Vec<Network>,
    },
    /// The clients whose traffic to a cluster IP is masqueraded differ; `None`: no clients.
    MasqueradeChanged {
        /// Clients on the live side.
        before: Option<MasqueradedClients>,
        /// Clients on the desired side.
        after: Option<MasqueradedClients>,
    },
    /// Other masquerade rules differ; only the rules show how.
    MasqueradeRules,
    /// Rules that drop or reject differ; only the rules show how.
    FilterRules,
    /// The rules are the same, in a different order.
    Reordered,
    /// Rules differ, and no other effect covers it: such as those of another release for the same
    /// frontends and endpoints.
    OtherRules,
}

/// Difference of the endpoints that serve some frontends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointChange {
    /// Policy on the desired side; on the live side for a service port that disappears.
    pub policy: Policy,
    /// Frontends that the endpoints serve.
    pub frontends: Vec<FrontendView>,
    /// Number of endpoints on the live side.
    pub before: usize,
    /// Number of endpoints on the desired side.
    pub after: usize,
    /// Endpoints of the desired side only, sorted.
    pub added: Vec<SocketAddr>,
    /// Endpoints of the live side only, sorted.
    pub removed: Vec<SocketAddr>,
}

impl EndpointChange {
    /// Reports whether all but the frontends is equal.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let frontends = self.frontends.clone();
        let other = Self {
            frontends,
            ..other.clone()
        };
        *self == other
    }
}

/// Traffic that a traffic policy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Traffic to the cluster IP.
    Internal,
    /// Traffic to all other frontends.
    External,
}

impl Traffic {
    /// Returns the word in the names of the policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
        }
    }
}

/// Clients whose traffic to a cluster IP is masqueraded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MasqueradedClients {
    /// All clients.
    All,
    /// Clients with an address outside of this network.
    OutsideNetwork(Network),
    /// Clients on any interface but this one; a final `+` matches all interfaces with this prefix.
    OutsideInterface(Box<str>),
}

/// Maximum addresses of each sign in one line: a removed Service with a thousand endpoints would
/// fill the screen.
const MAX_ADDRESSES: usize = 8;

/// Maximum frontends in one line.
const MAX_FRONTENDS: usize = 4;

/// Returns one line for an effect on a service port with this protocol.
pub(super) fn sentence(effect: &Effect, protocol: &str) -> String {
    let name = |frontend: &FrontendView| format!("{frontend}/{protocol}");
    match effect {
        Effect::FrontendAdded(frontend) => {
            let text = format!("+ {} {}", frontend.kind, name(frontend));
            let disposition = disposition(frontend.disposition);
            let disposition = disposition.map_or(String::new(), |words| format!(", {words}"));
            format!("{}{disposition}", color::added(text))
        }
        Effect::FrontendRemoved(frontend) => {
            color::removed(format!("- {} {}", frontend.kind, name(frontend))).to_string()
        }
        Effect::DispositionChanged { frontend, .. } => {
            let disposition = disposition(frontend.disposition).unwrap_or("served");
            format!("{}: now {disposition}", name(frontend))
        }
        Effect::PolicyChanged {
            traffic,
            before,
            after,
        } => {
            let traffic = traffic.as_str();
            format!("{traffic} policy {} -> {}", policy(*before), policy(*after))
        }
        Effect::EndpointsChanged(change) => endpoints(change, protocol),
        Effect::ShareChanged {
            endpoint,
            before,
            after,
            ..
        } => format!("{endpoint}: {before} -> {after} of new connections"),
        Effect::AffinityChanged { before, after } => {
            format!("affinity {} -> {}", timeout(*before), timeout(*after))
        }
        Effect::SourceRangesChanged { added, removed } => {
            let mut text = "source ranges".to_owned();
            append_changes(&mut text, added, removed);
            text
        }
        Effect::MasqueradeChanged { before, after } => masquerade(before.as_ref(), after.as_ref()),
        Effect::MasqueradeRules => "masquerade rules differ".to_owned(),
        Effect::FilterRules => "rules that drop or reject differ".to_owned(),
        Effect::Reordered => "the same rules in a different order".to_owned(),
        Effect::OtherRules => "rules differ; frontends and endpoints are the same".to_owned(),
    }
}

fn endpoints(change: &EndpointChange, protocol: &str) -> String {
    let EndpointChange {
        policy,
        frontends,
        before,
        after,
        added,
        removed,
    } = change;
    let named = frontends.iter().take(MAX_FRONTENDS);
    let named: Vec<_> = named.map(|one| format!("{one}/{protocol}")).collect();
    let mut text = named.join(", ");
    append_rest(&mut text, frontends.len(), MAX_FRONTENDS);
    let local = match policy {
        Policy::Cluster => "",
        Policy::Local => "local ",
    };
    let noun = if *after == 1 { "endpoint" } else { "endpoints" };
    // Writing to a String cannot fail.
    let _ = write!(text, ": {before} -> {after} {local}{noun}");
    append_changes(&mut text, added, removed);
    text
}

fn masquerade(before: Option<&MasqueradedClients>, after: Option<&MasqueradedClients>) -> String {
    use MasqueradedClients::{All, OutsideInterface, OutsideNetwork};
    let traffic = |clients: &MasqueradedClients| match clients {
        All => "all traffic".to_owned(),
        OutsideNetwork(network) => format!("traffic from outside {network}"),
        OutsideInterface(name) => format!("traffic by interfaces other than {name}"),
    };
    match (before, after) {
        (Some(OutsideNetwork(old)), Some(OutsideNetwork(new))) => {
            format!("traffic from outside {new} instead of {old} is masqueraded")
        }
        (Some(old), Some(new)) => {
            let (old, new) = (traffic(old), traffic(new));
            format!("{new} is masqueraded, instead of {old}")
        }
        (Some(old), None) => format!("{} is no longer masqueraded", traffic(old)),
        (None, Some(new)) => format!("{} is now masqueraded", traffic(new)),
        // Such an effect is never made.
        (None, None) => String::new(),
    }
}

/// Appends the first additions and removals, and the numbers of the others.
fn append_changes<T: ToString>(text: &mut String, added: &[T], removed: &[T]) {
    for one in added.iter().take(MAX_ADDRESSES) {
        let one = color::added(format!("+{}", one.to_string()));
        let _ = write!(text, ", {one}");
    }
    append_rest(text, added.len(), MAX_ADDRESSES);
    for one in removed.iter().take(MAX_ADDRESSES) {
        let one = color::removed(format!("-{}", one.to_string()));
        let _ = write!(text, ", {one}");
    }
    append_rest(text, removed.len(), MAX_ADDRESSES);
}

fn append_rest(text: &mut String, count: usize, max: usize) {
    if let Some(rest) = count.checked_sub(max).filter(|rest| *rest > 0) {
        let _ = write!(text, " and {rest} more");
    }
}

/// Returns the words for a disposition other than served.
const fn disposition(disposition: FrontendDisposition) -> Option<&'static str> {
    match disposition {
        FrontendDisposition::Served => None,
        FrontendDisposition::Dropped => Some("dropped: no endpoint on this node"),
        FrontendDisposition::Rejected => Some("rejected: no endpoints"),
        FrontendDisposition::Unreachable => Some("unreachable: no jump leads to an endpoint"),
    }
}

const fn policy(policy: Option<Policy>) -> &'static str {
    match policy {
        Some(Policy::Cluster) => "Cluster",
        Some(Policy::Local) => "Local",
        None => "unknown",
    }
}

fn timeout(affinity: Option<Duration>) -> String {
    affinity.map_or_else(
        || "none".to_owned(),
        |timeout| format!("{} s", timeout.as_secs()),
    )
}
