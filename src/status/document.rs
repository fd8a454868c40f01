//! Document about a node, `GET /status`: JSON for commands, and the content of the page.
//!
//! Fields are an interface: a command may meet a daemon of another version, so each field has a
//! default, and unknown ones are ignored.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::model::LostFrontend;
use crate::net::{IpFamily, Locked};

/// Syncs that are kept, as many as the sparkline of the page shows: 200 bytes each.
const MOST_SYNCS: usize = 200;

/// Changes by other programs that are kept: as many as fit on a screen.
const MOST_DRIFT: usize = 20;

/// Time for which changes by other programs are kept.
const DRIFT_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// State of a node's rules, as its proxy knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatusDocument {
    pub node: String,
    pub version: String,
    pub started_at: Timestamp,
    pub observed_at: Timestamp,
    /// Findings, the worst first.
    pub problems: Vec<Problem>,
    /// State of each family, IPv4 first.
    pub families: Vec<FamilyStatus>,
    pub watches: Vec<WatchStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conntrack: Option<ConntrackStatus>,
    /// The configuration in the file is not the one that this process runs with.
    pub configuration_changed: bool,
    /// The configuration in the file cannot be used.
    pub configuration_invalid: bool,
    /// Settings that this version does not know.
    pub unknown_settings: Vec<String>,
    /// The daemon compares its rules with those of another proxy, and writes none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_shadow: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Problem {
    /// Sentence that names it.
    pub summary: String,
    /// Next step for the operator; may be empty.
    pub hint: String,
    /// The node does not do its work; otherwise single Services or sources are concerned.
    pub is_failure: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FamilyStatus {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// `nft` or `legacy`; empty before the iptables binaries are found.
    pub backend: String,
    /// Why this backend.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub backend_reason: String,
    pub iptables_version: String,
    /// Other backend, if it has rules of a proxy as well: packets traverse both.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub other_backend: String,
    /// No Node object has the name of this node.
    pub is_node_missing: bool,
    /// The family is not used on this node.
    pub is_disabled: bool,
    /// Number of syncs that were applied.
    pub generation: u64,
    pub endpoints: u64,
    pub rules: u64,
    /// Services whose changes are not in the rules yet.
    pub pending_services: u64,
    /// Time of the oldest request for a sync that was not applied yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_full: Option<SyncRecord>,
    /// Last partial sync that wrote rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_partial: Option<SyncRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<FailureRecord>,
    /// Failed syncs in a row.
    pub failed_syncs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Changes by other programs within a day, the last one first; at most 20.
    pub drift: Vec<DriftRecord>,
    /// Services in quarantine, sorted by name.
    pub quarantined: Vec<QuarantinedService>,
    /// Claims of Services for a frontend that another Service has; at most ten.
    pub conflicts: Vec<ConflictRecord>,
    pub conflict_count: u64,
    pub over_limits: Vec<LimitRecord>,
    /// Endpoints on this node whose packets the rules do not recognize as those of Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undetected_pods: Option<UndetectedPods>,
    pub unreadable_tables: Vec<String>,
    /// Last 200 syncs that wrote rules, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recent_syncs: Vec<SyncRecord>,
    /// Why the rules are not known, so that `/rules` has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unknown: String,
}

impl FamilyStatus {
    pub(crate) fn synced(&mut self, sync: SyncRecord) {
        if sync.bytes > 0 {
            if self.recent_syncs.len() == MOST_SYNCS {
                self.recent_syncs.remove(0);
            }
            self.recent_syncs.push(sync.clone());
        }
        match sync.scope.as_str() {
            "partial" if sync.bytes == 0 => {}
            "partial" => self.last_partial = Some(sync),
            _ => self.last_full = Some(sync),
        }
    }

    pub(crate) fn drifted(&mut self, drift: DriftRecord) {
        self.drift.truncate(MOST_DRIFT - 1);
        self.drift.insert(0, drift);
    }

    /// Returns the state without the list of syncs, which only the page shows.
    pub(crate) fn without_recent_syncs(mut self) -> Self {
        self.recent_syncs.clear();
        self
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SyncRecord {
    /// Its end.
    pub at: Timestamp,
    /// `full`, `partial` or `adoption`.
    pub scope: String,
    /// Reason of a full sync, as in logs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub took_ms: f64,
    /// Size of the payload.
    pub bytes: u64,
    pub chains: u64,
    /// Dirty Services.
    pub services: u64,
    pub lock_wait_ms: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FailureRecord {
    /// Its end.
    pub at: Timestamp,
    /// `full`, `partial` or `adoption`.
    pub scope: String,
    /// Error, with the rejected line of the payload if the program names one.
    pub error: String,
    /// Consequence, as in logs.
    pub consequence: String,
}

/// Comparison of all rules in the kernel with the recorded ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Verification {
    /// Its end.
    pub at: Timestamp,
    /// The kernel had all of them, and no others. What differed is repaired by now, or about to be.
    pub is_clean: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DriftRecord {
    /// Time at which it was found.
    pub at: Timestamp,
    pub chains: u64,
    /// Names of the first chains.
    pub names: String,
    /// Program that changed them, with its process ID; empty if it is not known.
    pub program: String,
}

/// Service that makes restores fail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct QuarantinedService {
    /// Namespace and name.
    pub service: String,
    /// Error of a restore with its rules.
    pub error: String,
    /// Consequence for its clients, as in logs.
    pub consequence: String,
}

/// Claim of a Service for a frontend that another Service has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConflictRecord {
    /// Namespace and name.
    pub service: String,
    /// Name of its port; empty without one.
    pub port_name: String,
    /// Kind of frontend, as in the documents of `deltaproxy services`.
    pub kind: String,
    /// Virtual IP; empty for ports of the node.
    pub ip: String,
    pub port: u16,
    pub protocol: String,
    /// Namespace and name of the Service that has it.
    pub owner: String,
}

impl ConflictRecord {
    pub(crate) fn new(lost: &LostFrontend) -> Self {
        let LostFrontend {
            service,
            port,
            frontend,
            owner,
            ..
        } = lost;
        Self {
            service: service.to_string(),
            port_name: port.to_string(),
            kind: lost.kind().to_owned(),
            ip: frontend.ip().map(|ip| ip.to_string()).unwrap_or_default(),
            port: frontend.port().get(),
            protocol: frontend.protocol().to_string(),
            owner: owner.to_string(),
        }
    }
}

impl fmt::Display for ConflictRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (port, protocol) = (self.port, &self.protocol);
        write!(f, "{} does not get ", self.service)?;
        match self.ip.parse() {
            Ok(ip) => write!(f, "{}/{protocol}", SocketAddr::new(ip, port)),
            Err(_) => write!(f, "{} {port}/{protocol}", self.kind),
        }?;
        write!(f, ", which {} has", self.owner)
    }
}

/// Pods on this node outside of the network by which rules recognize the packets of Pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UndetectedPods {
    /// Service ports that have such endpoints.
    pub service_ports: u64,
    /// The network: `--cluster-cidr`, or of the Node's `podCIDRs`.
    pub network: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LimitRecord {
    /// Name of the limit, as in metrics.
    pub limit: String,
    pub services: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WatchStatus {
    /// Kind, as in metrics.
    pub kind: String,
    /// Time since the watch was known to be up to date.
    pub age_seconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConntrackStatus {
    pub entries: u64,
    /// Maximum number; new connections are dropped at it.
    pub max: u64,
}

/// State of a family since the start of the process. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FamilyLog(Arc<Locked<FamilyStatus>>);

impl FamilyLog {
    /// Returns the state of a family that has not begun.
    pub(crate) fn new(family: IpFamily) -> Self {
        let status = FamilyStatus {
            family: family.to_string(),
            ..FamilyStatus::default()
        };
        Self(Arc::new(Locked::new(status)))
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut FamilyStatus)) {
        change(&mut self.0.lock());
    }

    pub(crate) fn status(&self, now: Timestamp) -> FamilyStatus {
        let mut status = self.0.lock().clone();
        status
            .drift
            .retain(|drift| now.duration_since(drift.at) < DRIFT_KEPT);
        status
    }
}
