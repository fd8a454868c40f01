//! Requests of pages to the threads of the families, which have rules and Services in memory.
//!
//! Pages take turns, with a pause after each: a client in a loop may not keep a family from its
//! syncs.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::rules_stream::RulesWriter;
use super::summary::{RulesSummary, SummaryLimits};
use crate::model::{Service, ServiceName, ServiceState};
use crate::net::{IpFamily, PerFamily, parse_ip};

/// Maximum time for which a page waits for a family, and one about Services for its turn. A sync of
/// a large cluster takes longer; then the client gets no rules, and reads the kernel instead, which
/// the sync does not delay on nft.
const PATIENCE: Duration = Duration::from_secs(3);

/// Pauses between two turns, in times of what the last one took: together, the requests of all
/// clients take at most a third of the time of a family's thread.
const PAUSE_FACTOR: u32 = 2;

/// Request to a family, which its thread answers.
#[derive(Debug)]
pub(crate) enum FamilyRequest {
    /// Adds the rules to a page.
    Rules(Question<RulesWriter, RulesWriter>),
    /// Names the Services that a search finds, sorted.
    Names(Question<ServiceSearch, Vec<ServiceName>>),
    /// Describes Services, in the order of their names; `None` for an unknown one.
    Services(Question<ServicesAsked, Vec<Option<FamilyService>>>),
}

/// Search for Services by a part of their namespace and name, or by an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServiceSearch {
    text: String,
    ip: Option<IpAddr>,
}

#[derive(Debug, Clone)]
pub(crate) struct ServicesAsked {
    pub(crate) names: Vec<ServiceName>,
    pub(crate) limits: SummaryLimits,
    pub(crate) detail: ServiceDetail,
}

/// Amount of what a page shows of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceDetail {
    /// A row of a table.
    Row,
    /// All, with its rules.
    Page,
}

/// Service in one family, in the state that the kernel has rules for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FamilyService {
    pub(crate) summary: RulesSummary,
    /// The kernel does not have its last changes.
    pub(crate) is_pending: bool,
    pub(crate) rules: ServiceRulesText,
}

/// Rules of a Service, as lines of `iptables-save`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceRulesText {
    NotAsked,
    /// More than a page shows.
    TooMany,
    /// Not known, as those in the kernel are not, for this reason.
    Unknown(&'static str),
    Known(String),
}

impl ServiceSearch {
    /// Returns a search for a text as typed.
    pub(crate) fn new(text: &str) -> Self {
        let text = text.trim().to_lowercase();
        let ip = parse_ip(&text);
        Self { text, ip }
    }

    /// Reports whether a Service is one of those searched for.
    pub(crate) fn finds(&self, name: &ServiceName, state: &ServiceState) -> bool {
        name.as_str().contains(&self.text) || self.ip.is_some_and(|ip| has_address(state, ip))
    }
}

/// Reports whether a Service has an address: a frontend, or an endpoint in any condition.
fn has_address(state: &ServiceState, ip: IpAddr) -> bool {
    let has_frontend = |service: &Service| {
        service.cluster_ip == ip
            || service.external_ips.contains(&ip)
            || service.load_balancer_ips.contains(&ip)
    };
    let mut slices = state.slices.iter();
    state.service.as_deref().is_some_and(has_frontend)
        || slices.any(|(_, slice)| slice.endpoints.iter().any(|endpoint| endpoint.ip == ip))
}

/// Question of a page, and the channel for its answer.
#[derive(Debug)]
pub(crate) struct Question<Q, A> {
    asked: Q,
    reply: oneshot::Sender<A>,
}

impl<Q, A> Question<Q, A> {
    /// Answers, unless no client waits for it anymore.
    pub(crate) fn answer(self, answer: impl FnOnce(Q) -> A) {
        if !self.reply.is_closed() {
            // Without a receiver the client did not wait.
            let _ = self.reply.send(answer(self.asked));
        }
    }
}

/// Families that did not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Busy {
    /// A thread did not answer, for example because of a sync.
    #[error("the thread of {0} is busy, for example with a sync: try again later")]
    Family(IpFamily),
    /// Other requests had their turn all the time.
    #[error("too many requests for Services at the same time: try again later")]
    Turn,
}

/// Channels to the threads of both families.
#[derive(Debug)]
pub(crate) struct FamilyRequests {
    families: PerFamily<mpsc::Sender<FamilyRequest>>,
    next_not_before: Mutex<Option<Instant>>,
}

impl FamilyRequests {
    /// Returns the channels, and their ends for the threads.
    pub(crate) fn new() -> (Self, PerFamily<mpsc::Receiver<FamilyRequest>>) {
        let (v4, v4_requests) = mpsc::channel(1);
        let (v6, v6_requests) = mpsc::channel(1);
        let requests = Self {
            families: PerFamily { v4, v6 },
            next_not_before: Mutex::new(None),
        };
        let ends = PerFamily {
            v4: v4_requests,
            v6: v6_requests,
        };
        (requests, ends)
    }

    pub(super) async fn turn(&self) -> Turn<'_> {
        let next_not_before = self.next_not_before.lock().await;
        if let Some(at) = *next_not_before {
            sleep_until(at).await;
        }
        Turn {
            families: &self.families,
            next_not_before,
            started: Instant::now(),
        }
    }

    /// Waits for the turn of a page, for a limited time.
    pub(super) async fn turn_soon(&self) -> Result<Turn<'_>, Busy> {
        timeout(PATIENCE, self.turn()).await.map_err(|_| Busy::Turn)
    }
}

/// Turn of a page; others wait until it is dropped, and for a pause after that.
pub(super) struct Turn<'a> {
    families: &'a PerFamily<mpsc::Sender<FamilyRequest>>,
    next_not_before: MutexGuard<'a, Option<Instant>>,
    started: Instant,
}

impl Turn<'_> {
    /// Returns the families that are used on this node.
    pub(super) fn families(&self) -> impl Iterator<Item = IpFamily> {
        // One that is disabled has no receiver.
        IpFamily::ALL
            .into_iter()
            .filter(|family| !self.families.get(*family).is_closed())
    }

    pub(super) async fn ask<Q, A>(
        &self,
        family: IpFamily,
        request: impl FnOnce(Question<Q, A>) -> FamilyRequest,
        asked: Q,
    ) -> Result<A, Busy> {
        let (reply, answer) = oneshot::channel();
        let request = request(Question { asked, reply });
        let answered = async {
            self.families.get(family).send(request).await.ok()?;
            answer.await.ok()
        };
        let answer = timeout(PATIENCE, answered).await.ok().flatten();
        answer.ok_or(Busy::Family(family))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let ended = Instant::now();
        *self.next_not_before = Some(ended + PAUSE_FACTOR * (ended - self.started));
    }
}

#[cfg(test)]
#[path = "tests/family_requests.rs"]
mod tests;
