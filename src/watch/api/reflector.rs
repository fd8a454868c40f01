//! Lists and watches the objects of one kind for ever: when a watch ends or a request fails, the
//! next request follows.
//!
//! `kube::runtime` is not used. In version 5.0:
//!
//! - `kube` decodes JSON only, of which the API server sends twice as many bytes as of protobuf.
//! - Its client offers HTTP/1.1 only, without TCP keepalive: see [`transport`](super::transport).
//! - A watcher that begins with a WatchList repeats it after a failure, and never falls back to a
//!   LIST. It asks for version 0, which may be older than the rules of the node.
//! - It logs and drops an object that is deleted during the initial events.
//!
//! Objects that cannot be decoded are no reason: `kube::core::DeserializeGuard` keeps them apart.
//! Tests fail when `kube` has another version, or no longer the first two limits.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go, `ListAndWatch` (v1.37)

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::ApiClient;
use super::encoding::{ObjectDecodeError, ReceivedObject};
use super::error::{ApiError, protocol_error};
use super::list::{ListLimit, PageContents, Pages};
use super::resource::{Resource, Selector};
use super::retry::{NextRequest, RetryBackoff, RetryDelay, is_resumable, reopen_delay};
use super::watch::{Watch, WatchEvent};
use crate::watch::SourceEvent;

/// Receiver of what a reflector reports about one kind, in order.
pub trait Observer<K>: Send {
    /// Handles an event about the objects. No more is read from the server until this returns.
    fn on_source_event(&mut self, event: SourceEvent<K>);

    /// Handles an event of the reflector itself. Most are for metrics, but
    /// [`ReflectorEvent::Undecodable`] must mark its object: the end of the list deletes objects
    /// that are not marked.
    fn on_reflector_event(&mut self, event: ReflectorEvent<'_>);
}

/// Event of a reflector itself: about its requests, or an object that cannot be decoded. The
/// reflector logs failures and such objects.
#[derive(Debug)]
pub enum ReflectorEvent<'a> {
    /// The objects are current: a list is complete, or a watch sent an event.
    Current,
    /// A request failed; the next one follows after `pause`. Not sent for a failed WatchList that a
    /// LIST follows at once.
    Failed {
        error: &'a ApiError,
        /// Time until the next request.
        pause: Duration,
    },
    /// An object exists and cannot be decoded. Its last valid state must stay in use, if its name
    /// is known. Comes in place of [`SourceEvent::Set`], during a list as well.
    Undecodable(&'a ObjectDecodeError),
}

/// Minimum `timeoutSeconds` of a watch; jitter extends it to up to twice this. Watches end because
/// the server may have lost one, and at random times so that clients do not reconnect together.
///
/// Upstream: k8s.io/client-go/tools/cache/reflector.go, `minWatchTimeout` (v1.37)
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// A watch that lasts less than this counts as failed if it sent no event other than initial ones.
/// If it sent one, the next watch follows after [`reopen_delay`].
const VERY_SHORT_WATCH: Duration = Duration::from_secs(5);

/// Time without an event after which a watch is resumed with a new request: servers send a bookmark
/// every minute, and an intermediary may keep a dead connection open.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(3 * 60);

/// Maximum time from one initial object of a WatchList to the next one, or to the final bookmark.
/// Servers that do not support WatchList never send the bookmark.
const INITIAL_EVENTS_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Error of a WatchList whose final bookmark does not come in time.
const NO_BOOKMARK: &str = "timed out: no final bookmark of the WatchList";

/// Maximum time until the final bookmark of a WatchList: enough for the largest clusters through a
/// link of 10 Mbit/s. Through slower ones a LIST follows, which may take longer.
const WATCH_LIST_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Lists and watches one kind and passes its objects to `observer`, until dropped.
///
/// # Invariants
///
/// Every [`SourceEvent::Listing`] comes when the server has accepted a LIST or WatchList. Then come
/// the objects, each as `Set` or [`ReflectorEvent::Undecodable`]; objects that change during a
/// WatchList come again, or as `Deleted`. [`SourceEvent::Listed`] ends the list, or another
/// `Listing` replaces it if it failed.
pub async fn list_and_watch<K: Resource, O: Observer<K>>(
    server: &ApiClient,
    selector: &Selector<K>,
    observer: &mut O,
) -> Infallible {
    let mut reflector = Reflector {
        server,
        selector,
        observer,
        backoff: RetryBackoff::default(),
        has_failed: false,
    };
    let mut next = NextRequest::new();
    loop {
        if let Err(error) = reflector.run_once(&mut next).await {
            reflector.handle_failure(&mut next, &error).await;
        }
    }
}

struct Reflector<'a, K, O> {
    server: &'a ApiClient,
    selector: &'a Selector<K>,
    observer: &'a mut O,
    backoff: RetryBackoff,
    /// A request has failed since the objects were current.
    has_failed: bool,
}

impl<K: Resource, O: Observer<K>> Reflector<'_, K, O> {
    /// Lists if necessary, and then watches until the watch ends. After `Ok`, another watch
    /// resumes.
    async fn run_once(&mut self, next: &mut NextRequest) -> Result<(), ApiError> {
        if matches!(next, NextRequest::List { .. }) {
            self.list(next).await?;
        }
        let time = MIN_WATCH_TIMEOUT.mul_f64(1.0 + fastrand::f64());
        let mut watch = Watch::open(self.server, self.selector, next.resume_from(), time).await?;
        if matches!(next, NextRequest::WatchList { .. }) {
            self.initial_events(next, &mut watch).await?;
        }
        self.backoff.succeeded(Instant::now());
        self.watch(watch, next).await
    }

    async fn list(&mut self, next: &mut NextRequest) -> Result<(), ApiError> {
        let mut pages = Pages::new(self.server, self.selector);
        loop {
            let page = pages.next().await?;
            let contents: PageContents<'_> = page.split::<K>()?;
            if pages.is_first() {
                self.begin_list();
            }
            for object in &contents.objects {
                self.set(ReceivedObject::decode(object));
            }
            if let Some(resource_version) = pages.advance(contents.metadata)? {
                return self.finish_list(next, &resource_version);
            }
        }
    }

    /// Receives the initial events of a WatchList, up to its final bookmark.
    async fn initial_events(
        &mut self,
        next: &mut NextRequest,
        watch: &mut Watch,
    ) -> Result<(), ApiError> {
        self.begin_list();
        // Whether all events so far are added objects.
        let mut has_only_added = true;
        let mut bookmark_deadline = Instant::now() + INITIAL_EVENTS_IDLE_TIMEOUT;
        let mut limit = ListLimit::new(WATCH_LIST_TIMEOUT);
        loop {
            // `next` returns no timeout while events arrive without a pause.
            if !has_only_added && Instant::now() >= bookmark_deadline {
                return Err(protocol_error(NO_BOOKMARK));
            }
            limit.add_bytes(watch.take_received_bytes())?;
            let event = match watch.next(bookmark_deadline).await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let problem = "the WatchList ended before its final bookmark";
                    return Err(protocol_error(problem));
                }
                Err(ApiError::TimedOut(_)) => return Err(protocol_error(NO_BOOKMARK)),
                Err(error) => return Err(error),
            };
            let is_added = matches!(event, WatchEvent::Added(_));
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    drop(self.set(object));
                }
                WatchEvent::Deleted(object) => drop(self.delete(object)),
                WatchEvent::Bookmark {
                    resource_version,
                    ends_initial_events,
                } => {
                    if ends_initial_events {
                        return self.finish_list(next, &resource_version);
                    }
                }
            }
            // Each added object extends the deadline. The first event of another type shows that
            // all initial ones were sent: it extends the deadline for the last time.
            if has_only_added {
                has_only_added = is_added;
                bookmark_deadline = limit
                    .deadline()
                    .min(Instant::now() + INITIAL_EVENTS_IDLE_TIMEOUT);
            }
        }
    }

    fn begin_list(&mut self) {
        self.observer.on_source_event(SourceEvent::Listing);
    }

    /// Ends a list: the observer deletes those that the list does not have.
    fn finish_list(
        &mut self,
        next: &mut NextRequest,
        resource_version: &str,
    ) -> Result<(), ApiError> {
        if !is_resumable(resource_version) {
            let problem = "a list has no resource version to watch from";
            return Err(protocol_error(problem));
        }
        self.observer.on_source_event(SourceEvent::Listed);
        next.listed(resource_version);
        self.backoff.succeeded(Instant::now());
        self.mark_current();
        Ok(())
    }

    /// Passes on events until the watch ends. After `Ok`, another watch resumes.
    async fn watch(&mut self, mut watch: Watch, next: &mut NextRequest) -> Result<(), ApiError> {
        let mut is_silent = true;
        let reason = loop {
            let event = match watch.next(Instant::now() + WATCH_IDLE_TIMEOUT).await {
                Ok(Some(event)) => event,
                // The normal end: the server closed the watch at `timeoutSeconds`, or because it
                // shuts down.
                Ok(None) => break "closed by the server",
                // No event for three minutes, or the server ignores `timeoutSeconds`. Not a
                // failure, since pings show that the connection works, but the server or an
                // intermediary may have lost this watch.
                Err(ApiError::TimedOut(_)) => break "no event for 3 min, or past timeoutSeconds",
                // The connection was lost, a message cannot be used, or an ERROR event came.
                Err(error) => return Err(error),
            };
            let resource_version = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => self.set(object),
                WatchEvent::Deleted(object) => self.delete(object),
                WatchEvent::Bookmark {
                    resource_version, ..
                } => resource_version,
            };
            next.advance(&resource_version);
            is_silent = false;
            self.mark_current();
        };
        if watch.age() < VERY_SHORT_WATCH {
            if is_silent {
                return Err(ApiError::VeryShortWatch);
            }
            sleep(reopen_delay(fastrand::f64())).await;
        }
        let server = self.server.address();
        tracing::debug!(server, kind = K::KIND, reason, "reopening the watch");
        Ok(())
    }

    /// Passes on an object that exists. Returns its resource version.
    fn set(&mut self, object: ReceivedObject<K>) -> String {
        match object.decoded {
            Ok(state) => self.observer.on_source_event(SourceEvent::Set(state)),
            Err(problem) => self.handle_undecodable(&problem),
        }
        object.resource_version
    }

    /// Passes on a deleted object. Returns the resource version of the deletion.
    fn delete(&mut self, object: ReceivedObject<K>) -> String {
        let name = object.name();
        self.observer.on_source_event(SourceEvent::Deleted(name));
        object.resource_version
    }

    fn handle_undecodable(&mut self, problem: &ObjectDecodeError) {
        tracing::warn!(
            server = self.server.address(),
            kind = K::KIND,
            name = %problem.name,
            error = %problem.source,
            "skipped an object that cannot be decoded; if its name is known, its last valid state \
             is kept",
        );
        self.observer
            .on_reflector_event(ReflectorEvent::Undecodable(problem));
    }

    /// Reports that the objects are current: a list is complete, or a watch sent an event.
    fn mark_current(&mut self) {
        self.observer.on_reflector_event(ReflectorEvent::Current);
        if std::mem::take(&mut self.has_failed) {
            let (server, kind) = (self.server.address(), K::KIND);
            tracing::info!(server, kind, "objects are current again");
        }
    }

    /// Logs a failure, chooses the next request, and waits until that is due.
    async fn handle_failure(&mut self, next: &mut NextRequest, error: &ApiError) {
        let request = next.as_str();
        let delay = next.failed(error);
        let next_request = next.as_str();
        let (server, kind) = (self.server.address(), K::KIND);
        if delay == RetryDelay::None {
            let (error, text) = (error.in_full(), "WatchList failed; falling back to LIST");
            tracing::warn!(server, kind, error, "{text}");
            return;
        }
        let pause = self.backoff.failed(delay, Instant::now(), fastrand::f64());
        let pause = pause.max(error.retry_after());
        self.has_failed = true;
        tracing::warn!(
            server,
            kind,
            request,
            next = next_request,
            pause_seconds = pause.as_secs_f64(),
            error = error.in_full(),
            "list or watch failed; retrying, known objects stay in use meanwhile",
        );
        self.observer
            .on_reflector_event(ReflectorEvent::Failed { error, pause });
        sleep(pause).await;
    }
}
