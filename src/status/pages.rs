//! Pages about the node, on the metrics port: `/rules` and `/status`.

use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, StatusCode};
use jiff::Timestamp;

use super::document::{ConntrackStatus, StatusDocument, WatchStatus};
use super::family_log::FamilyLog;
use super::rules_page::RulesPage;
use crate::host::Sysctls;
use crate::net::PerFamily;
use crate::telemetry::{
    ConfigMetrics, Reply, TEXT, UnknownSettings, WatchAges, is_of_this_node, reply,
};

/// Sources of the pages.
#[derive(Debug)]
pub(crate) struct StatusPages {
    /// Name of the node.
    pub node: String,
    /// Version of deltaproxy.
    pub version: &'static str,
    /// Start of the process.
    pub started: Timestamp,
    /// Rules of all families.
    pub rules: RulesPage,
    /// Syncs and comparisons of each family.
    pub families: PerFamily<FamilyLog>,
    /// Ages of the watches.
    pub watches: WatchAges,
    /// State of the configuration file.
    pub config: ConfigMetrics,
    /// Settings that have no effect because this version does not know them.
    pub unknown_settings: UnknownSettings,
}

impl StatusPages {
    /// Returns the response to a request, if it is for one of these pages.
    pub(crate) async fn answer(&self, request: &Request<Bytes>) -> Option<Reply> {
        let now = now();
        Some(match request.uri().path() {
            "/rules" if is_of_this_node(request) => self.rules.answer(request, now).await,
            "/rules" => forbidden(),
            "/status" => {
                let status = self.status(now);
                let status = if is_of_this_node(request) {
                    status
                } else {
                    status.without_names()
                };
                // Cannot fail: keys are strings.
                let text = serde_json::to_string(&status).unwrap_or_default();
                reply(StatusCode::OK, "application/json", text + "\n")
            }
            _ => return None,
        })
    }

    fn status(&self, now: Timestamp) -> StatusDocument {
        let families = self.families.as_ref().into_pairs();
        let mut status = StatusDocument {
            node: self.node.clone(),
            version: self.version.to_owned(),
            started_at: self.started,
            observed_at: now,
            families: families.map(|(_, log)| log.status(now)).into(),
            watches: self.watches(),
            conntrack: conntrack(),
            configuration_changed: self.config.is_stale(),
            configuration_invalid: self.config.is_invalid(),
            unknown_settings: self.unknown_settings.paths(),
            problems: Vec::new(),
        };
        status.find_problems();
        status
    }

    fn watches(&self) -> Vec<WatchStatus> {
        let ages = self.watches.ages().into_iter();
        ages.map(|(kind, age)| WatchStatus {
            kind: kind.to_owned(),
            age_seconds: age.as_secs_f64(),
        })
        .collect()
    }
}

fn forbidden() -> Reply {
    let text = "only clients on this node get its rules: connect to 127.0.0.1, for example with \
                `kubectl port-forward`\n";
    reply(StatusCode::FORBIDDEN, TEXT, text)
}

/// Returns the fill of the connection tracking table; `None` if the kernel has none.
fn conntrack() -> Option<ConntrackStatus> {
    let sysctls = Sysctls::default();
    let read = |name| u64::try_from(sysctls.read(name).ok()?).ok();
    Some(ConntrackStatus {
        entries: read("net/netfilter/nf_conntrack_count")?,
        max: read("net/netfilter/nf_conntrack_max")?,
    })
}

#[expect(clippy::disallowed_methods, reason = "pages show ages")]
fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
}
