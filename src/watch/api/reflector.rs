//! Keeps the objects of one kind up to date for ever: list, watch, and after each end or failure
//! the next request.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go, `ListAndWatch` (v1.36)

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::ApiServer;
use super::decode::{DecodedObject, Undecodable};
use super::diagnostics::{FailureLog, MassDeletion, ObjectCount, UndecodableObjects};
use super::error::{ApiError, malformed};
use super::list::{ListLimit, Pages, Paging};
use super::page::PageContents;
use super::resource::{Resource, Selector};
use super::retry::{Position, RetryBackoff, RetryDelay, is_resumable, reopen_delay};
use super::watch::{Watch, WatchEvent};
use crate::watch::Observed;

/// Receiver of the objects of one kind, in order.
pub trait Observer<K>: Send {
    /// Takes an observation. No more is read from the server until this returns.
    fn observe(&mut self, observed: Observed<K>) -> impl Future<Output = ()> + Send;

    /// Takes a state change of the reflector, for health and metrics; in order with the
    /// observations.
    fn report(&mut self, event: ReflectorEvent<'_>);
}

/// State change of a reflector. Everything in it is logged already.
#[derive(Debug)]
pub enum ReflectorEvent<'a> {
    /// The server accepted a list or a watch.
    Connected,
    /// Everything that was observed is current: a list is complete, or an event or a bookmark of a
    /// watch came.
    Current,
    /// A list or a watch failed and is retried after `pause`.
    Failed {
        /// Cause of the failure.
        error: &'a ApiError,
        /// Time until the next request.
        pause: Duration,
    },
    /// An object exists and cannot be decoded. Its last valid state stays in use, also if this
    /// comes between [`Observed::Listing`] and [`Observed::Listed`]: it was in the list.
    Undecodable(&'a Undecodable),
}

/// Minimum duration of a watch; jitter extends it to up to twice this. Watches end so that one
/// that the server has lost does not last, and at random times so that clients do not reconnect
/// together.
///
/// Upstream: k8s.io/client-go/tools/cache/reflector.go, `minWatchTimeout` (v1.36)
const SHORTEST_WATCH: Duration = Duration::from_secs(5 * 60);

/// Duration below which a watch counts as failed if it brought no events, and is otherwise opened
/// again after a short delay.
const SUSPICIOUSLY_SHORT: Duration = Duration::from_secs(5);

/// Time without an event or a bookmark after which a watch is resumed with a new request: servers
/// send a bookmark every minute, and an intermediary may keep a dead connection open.
const LONGEST_QUIET: Duration = Duration::from_secs(3 * 60);

/// Maximum time in which a streaming list brings no further object of the initial state before its
/// final bookmark. Servers that do not support streaming lists never send one.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time of a streaming list: enough for the largest clusters through a link of 10 Mbit/s.
/// Through slower ones a list in pages follows, which may take longer.
const STREAM_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Lists and watches one kind and passes its objects to `observer`, until dropped.
///
/// # Invariants
///
/// Every [`Observed::Listing`] comes when the server has accepted a list; after it come one `Set`
/// per decoded object, then [`Observed::Listed`], or another `Listing` if the list failed.
pub async fn list_and_watch<K: Resource, O: Observer<K>>(
    server: &ApiServer,
    selector: &Selector<K>,
    observer: &mut O,
) -> Infallible {
    let mut reflector = Reflector {
        server,
        selector,
        observer,
        backoff: RetryBackoff::default(),
        failures: FailureLog::default(),
        undecodable: UndecodableObjects::default(),
        count: ObjectCount::default(),
    };
    let mut position = Position::new();
    loop {
        if let Err(error) = reflector.run_once(&mut position).await {
            reflector.retry(&mut position, &error).await;
        }
    }
}

/// Complete list that the observer has received.
struct CompletedList {
    resource_version: String,
    objects: usize,
}

struct Reflector<'a, K, O> {
    server: &'a ApiServer,
    selector: &'a Selector<K>,
    observer: &'a mut O,
    backoff: RetryBackoff,
    failures: FailureLog,
    undecodable: UndecodableObjects,
    count: ObjectCount,
}

impl<K: Resource, O: Observer<K>> Reflector<'_, K, O> {
    /// Lists if necessary, and then watches until the watch ends. `Ok` if it ended in order.
    async fn run_once(&mut self, position: &mut Position) -> Result<(), ApiError> {
        if let Position::Listing { paging, .. } = *position {
            let list = self.list(paging).await?;
            self.complete(position, &list).await?;
        }
        let timeout = SHORTEST_WATCH.mul_f64(1.0 + fastrand::f64());
        let mut watch = Watch::open(self.server, self.selector, position.start(), timeout).await?;
        self.observer.report(ReflectorEvent::Connected);
        if matches!(position, Position::Streaming { .. }) {
            let list = self.streaming_list(&mut watch).await?;
            self.complete(position, &list).await?;
        }
        self.backoff.working(Instant::now());
        self.watch(watch, position).await
    }

    /// Lists page by page.
    async fn list(&mut self, paging: Paging) -> Result<CompletedList, ApiError> {
        let mut pages = Pages::new(self.server, self.selector, paging);
        let mut objects = 0;
        loop {
            let page = pages.next().await?;
            let contents: PageContents<'_> = pages.contents(&page)?;
            if pages.is_first() {
                self.observer.report(ReflectorEvent::Connected);
                self.begin_list().await;
            }
            for object in &contents.objects {
                self.set(DecodedObject::decode(object)).await;
            }
            objects += contents.objects.len();
            if let Some(resource_version) = pages.advance(&page, contents.metadata)? {
                return Ok(CompletedList {
                    resource_version,
                    objects,
                });
            }
        }
    }

    /// Lists by means of the events that a watch begins with.
    async fn streaming_list(&mut self, watch: &mut Watch) -> Result<CompletedList, ApiError> {
        self.begin_list().await;
        let (mut objects, mut is_state) = (0_usize, true);
        let mut end = Instant::now() + END_TIMEOUT;
        let mut limit = ListLimit::new(STREAM_TIMEOUT);
        loop {
            if !is_state && Instant::now() >= end {
                return Err(malformed("the streaming list has no final bookmark"));
            }
            limit.add_bytes(watch.take_received())?;
            let event = match watch.next(end).await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let problem = "the streaming list ended before its final bookmark";
                    return Err(malformed(problem));
                }
                Err(ApiError::TimedOut(_)) => {
                    return Err(malformed(
                        "timed out: no final bookmark of the streaming list",
                    ));
                }
                Err(error) => return Err(error),
            };
            let is_object = matches!(event, WatchEvent::Added(_));
            limit.add_objects(usize::from(is_object))?;
            match event {
                WatchEvent::Added(object) => {
                    objects += 1;
                    drop(self.set(object).await);
                }
                WatchEvent::Modified(object) => drop(self.set(object).await),
                WatchEvent::Deleted(object) => {
                    objects = objects.saturating_sub(1);
                    drop(self.delete(object).await);
                }
                WatchEvent::Bookmark(bookmark) if bookmark.ends_initial => {
                    let resource_version = bookmark.resource_version;
                    return Ok(CompletedList {
                        resource_version,
                        objects,
                    });
                }
                WatchEvent::Bookmark(_) => {}
            }
            // Anything but an added object comes after the state. Then the final bookmark is due.
            if is_state {
                is_state = is_object;
                end = limit.deadline().min(Instant::now() + END_TIMEOUT);
            }
        }
    }

    async fn begin_list(&mut self) {
        self.undecodable.begin_list();
        self.observer.observe(Observed::Listing).await;
    }

    async fn complete(
        &mut self,
        position: &mut Position,
        list: &CompletedList,
    ) -> Result<(), ApiError> {
        if !is_resumable(&list.resource_version) {
            return Err(malformed("a list has no resource version to watch from"));
        }
        self.observer.observe(Observed::Listed).await;
        self.undecodable.end_list();
        let now = Instant::now();
        let deletion = self.count.listed(list.objects, now);
        self.log_mass_deletion(deletion);
        position.listed(&list.resource_version);
        self.backoff.working(now);
        self.recovered();
        Ok(())
    }

    /// Passes on events until the watch ends.
    async fn watch(&mut self, mut watch: Watch, position: &mut Position) -> Result<(), ApiError> {
        let mut is_silent = true;
        loop {
            let event = match watch.next(Instant::now() + LONGEST_QUIET).await {
                // The server has not ended it in time. Its keepalive shows that the connection
                // works.
                Ok(None) | Err(ApiError::TimedOut(_)) => break,
                Ok(Some(event)) => event,
                Err(error) => return Err(error),
            };
            let resource_version = match event {
                WatchEvent::Added(object) => {
                    self.count.added(Instant::now());
                    self.set(object).await
                }
                WatchEvent::Modified(object) => self.set(object).await,
                WatchEvent::Deleted(object) => {
                    let deletion = self.count.deleted(Instant::now());
                    self.log_mass_deletion(deletion);
                    self.delete(object).await
                }
                WatchEvent::Bookmark(bookmark) => bookmark.resource_version,
            };
            position.advance(&resource_version);
            is_silent = false;
            self.recovered();
        }
        if watch.age() < SUSPICIOUSLY_SHORT {
            if is_silent {
                let problem = "the watch ended at once without an event";
                return Err(ApiError::Broken(problem.into()));
            }
            sleep(reopen_delay(fastrand::f64())).await;
        }
        Ok(())
    }

    async fn set(&mut self, object: DecodedObject<K>) -> String {
        match object.state {
            Ok(state) => {
                self.decoded(&state);
                self.observer.observe(Observed::Set(state)).await;
            }
            Err(problem) => self.log_undecodable(&problem),
        }
        object.resource_version
    }

    async fn delete(&mut self, object: DecodedObject<K>) -> String {
        let state = object
            .state
            .unwrap_or_else(|problem| K::named(&problem.name));
        self.decoded(&state);
        self.observer.observe(Observed::Deleted(state)).await;
        object.resource_version
    }

    fn decoded(&mut self, object: &K) {
        let metadata = object.metadata();
        self.undecodable.remove(&metadata.namespace, &metadata.name);
    }

    fn log_undecodable(&mut self, problem: &Undecodable) {
        let name = &problem.name;
        if let Some(undecodable) = self.undecodable.add(&name.namespace, &name.name) {
            tracing::warn!(
                server = self.server.address(),
                kind = K::KIND,
                %name,
                unreadable = undecodable,
                error = %problem.source,
                "skipped an object that cannot be decoded: its last valid state stays in use",
            );
        }
        self.observer.report(ReflectorEvent::Undecodable(problem));
    }

    fn log_mass_deletion(&self, deletion: Option<MassDeletion>) {
        if let Some(MassDeletion { before, after }) = deletion {
            tracing::warn!(
                server = self.server.address(),
                kind = K::KIND,
                before,
                after,
                "most objects were deleted at once: their rules are removed; if that was not \
                 intended, restore the objects in the cluster",
            );
        }
    }

    /// Reports that the objects are current: a list is complete, or an event or bookmark came.
    fn recovered(&mut self) {
        self.observer.report(ReflectorEvent::Current);
        if let Some(failures) = self.failures.recovered() {
            let server = self.server.address();
            tracing::info!(
                server,
                kind = K::KIND,
                failures,
                "reconnected: list and watch work again"
            );
        }
    }

    /// Waits after a failure, and moves to the next request.
    async fn retry(&mut self, position: &mut Position, error: &ApiError) {
        let delay = position.failed(error);
        if delay == RetryDelay::None {
            let (server, error) = (self.server.address(), error.in_full());
            tracing::info!(
                server,
                kind = K::KIND,
                error,
                "streaming list failed; retrying with a list in pages"
            );
            return;
        }
        let pause = self.backoff.failed(delay, Instant::now(), fastrand::f64());
        let pause = pause.max(error.retry_after());
        if let Some(failures) = self.failures.failed(error.status()) {
            let (server, error) = (self.server.address(), error.in_full());
            tracing::warn!(
                server,
                kind = K::KIND,
                failures,
                ?pause,
                error,
                "list or watch failed; retrying"
            );
        }
        self.observer
            .report(ReflectorEvent::Failed { error, pause });
        sleep(pause).await;
    }
}
