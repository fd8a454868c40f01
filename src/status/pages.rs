//! Pages about the node, on the metrics port: `/rules` and `/status` for commands, and in HTML `/`
//! and those about Services.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use serde::Serialize;

use super::document::{ConntrackStatus, FamilyLog, FamilyStatus, StatusDocument, WatchStatus};
use super::html::{self, Audience};
use super::rules_page::RulesPage;
use super::service_pages::ServicePages;
use super::shadow::{ShadowDocument, ShadowLog};
use crate::clock;
use crate::host::Sysctls;
use crate::net::PerFamily;
use crate::telemetry::{
    ConfigMetrics, Reply, TEXT, UnknownSettings, WatchAges, is_of_this_node, reply,
};

/// Text for clients that get no names.
const FORBIDDEN: &str = "only clients on this node get its rules and Services: connect to \
                         127.0.0.1, for example with `kubectl port-forward`";

#[derive(Debug)]
pub(crate) struct StatusPages {
    pub node: String,
    pub version: &'static str,
    pub started: Timestamp,
    pub rules: Arc<RulesPage>,
    /// Services of all families; `None`: pages in HTML are not served.
    pub services: Option<ServicePages>,
    /// Syncs and comparisons of each family.
    pub families: PerFamily<FamilyLog>,
    /// Comparisons of each family; `None`: the daemon is not in shadow mode.
    pub shadow: Option<PerFamily<ShadowLog>>,
    pub watches: WatchAges,
    pub config: ConfigMetrics,
    /// Settings that have no effect because this version does not know them.
    pub unknown_settings: UnknownSettings,
}

impl StatusPages {
    /// Returns the response to a request, if it is for one of these pages.
    pub(crate) async fn answer(&self, request: &Request<Bytes>) -> Option<Reply> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return self.has(request.uri().path()).then(read_only);
        }
        let now = clock::now();
        let audience = if is_of_this_node(request) {
            Audience::Node
        } else {
            Audience::Others
        };
        match request.uri().path() {
            "/rules" if audience == Audience::Node => Some(self.rules.answer(request, now).await),
            "/rules" => Some(reply(StatusCode::FORBIDDEN, TEXT, format!("{FORBIDDEN}\n"))),
            "/status" => Some(json(&self.status_for(audience, now))),
            "/shadow" if self.shadow.is_some() && audience == Audience::Others => {
                Some(reply(StatusCode::FORBIDDEN, TEXT, format!("{FORBIDDEN}\n")))
            }
            "/shadow" => Some(json(&self.shadow_document(now)?)),
            path => {
                let services = self.services.as_ref()?;
                self.html(services, (path, request), audience, now).await
            }
        }
    }

    /// Reports whether a path is that of one of these pages, or below `/services`.
    fn has(&self, path: &str) -> bool {
        match path {
            "/rules" | "/status" => true,
            "/shadow" => self.shadow.is_some(),
            path => {
                let below = path.strip_prefix("/services");
                let is_html = path == "/" || below.is_some_and(is_end_of_path);
                is_html && self.services.is_some()
            }
        }
    }

    async fn html(
        &self,
        services: &ServicePages,
        (path, request): (&str, &Request<Bytes>),
        audience: Audience,
        now: Timestamp,
    ) -> Option<Reply> {
        if path == "/" {
            let status = self.status_for(audience, now);
            let title = format!("Node {}", status.node);
            let main = html::overview(&status, audience);
            return Some(html::page(StatusCode::OK, audience, &title, &main));
        }
        let below = path.strip_prefix("/services");
        let below = below.filter(|below| is_end_of_path(below))?;
        if audience == Audience::Others {
            return Some(html::refusal(StatusCode::FORBIDDEN, audience, FORBIDDEN));
        }
        let families = self.family_statuses(now);
        Some(match below.trim_start_matches('/') {
            "" => services.list(request, &families).await,
            name => services.service(name, &families).await,
        })
    }

    fn shadow_document(&self, now: Timestamp) -> Option<ShadowDocument> {
        let families = self.shadow.as_ref()?.pairs();
        Some(ShadowDocument {
            node: self.node.clone(),
            version: self.version.to_owned(),
            started_at: self.started,
            observed_at: now,
            families: families.map(|(_, log)| log.get()).collect(),
        })
    }

    fn status_for(&self, audience: Audience, now: Timestamp) -> StatusDocument {
        let status = self.status(now);
        match audience {
            Audience::Node => status,
            Audience::Others => status.without_names(),
        }
    }

    fn family_statuses(&self, now: Timestamp) -> Vec<FamilyStatus> {
        let families = self.families.pairs();
        families.map(|(_, log)| log.status(now)).collect()
    }

    fn status(&self, now: Timestamp) -> StatusDocument {
        let mut status = StatusDocument {
            node: self.node.clone(),
            version: self.version.to_owned(),
            started_at: self.started,
            observed_at: now,
            families: self.family_statuses(now),
            watches: self.watches(),
            conntrack: ConntrackStatus::read(),
            configuration_changed: self.config.is_stale(),
            configuration_invalid: self.config.is_invalid(),
            unknown_settings: self.unknown_settings.paths(),
            is_shadow: self.shadow.is_some(),
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

/// Reports whether a name of a path ends before this rest of it.
fn is_end_of_path(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

fn json(document: &impl Serialize) -> Reply {
    // Cannot fail: keys are strings.
    let text = serde_json::to_string(document).unwrap_or_default();
    reply(StatusCode::OK, "application/json", text + "\n")
}

/// Returns the response to a method that would change something.
fn read_only() -> Reply {
    let text = "405 method not allowed: this page can only be read\n";
    let mut reply = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
    let allowed = HeaderValue::from_static("GET, HEAD");
    reply.headers_mut().insert(ALLOW, allowed);
    reply
}

impl ConntrackStatus {
    /// Reads the fill of the table; `None` if the kernel has none.
    pub(crate) fn read() -> Option<Self> {
        let sysctls = Sysctls::default();
        let read = |name| u64::try_from(sysctls.read(name).ok()?).ok();
        Some(Self {
            entries: read("net/netfilter/nf_conntrack_count")?,
            max: read("net/netfilter/nf_conntrack_max")?,
        })
    }
}
