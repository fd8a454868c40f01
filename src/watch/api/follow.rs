//! One kind of object, followed for ever.
//!
//! This is the order of things: list, watch, and after each end or failure the decision where to
//! go on; what a list or a watch is, is elsewhere.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::backoff::{Backoff, short_wait};
use super::client::ApiServer;
use super::dice::roll;
use super::error::{ApiError, chain, malformed};
use super::event::Event;
use super::kind::{Kind, Selector};
use super::list_limit::ListLimit;
use super::object::{Object, Undecodable};
use super::outage::Outage;
use super::page::{Contents, Pages, Paging};
use super::population::{Population, Shrink};
use super::position::{Position, RetryDelay, is_point};
use super::sink::{Notice, Sink};
use super::unreadable::UnreadableObjects;
use super::watch::Watch;
use crate::watch::Observed;

/// Watches end after this to twice this, so that one that the server has forgotten does not last,
/// and clients that began together do not begin again together.
///
/// Upstream: k8s.io/client-go/tools/cache/reflector.go, `minWatchTimeout` (v1.36)
const SHORTEST_WATCH: Duration = Duration::from_secs(5 * 60);

/// A watch that ends sooner counts as failed if it brought nothing, and is otherwise opened again
/// after a short wait.
const SUSPICIOUSLY_SHORT: Duration = Duration::from_secs(5);

/// A watch without an event or a bookmark for so long is opened again, from where it was: servers
/// send a bookmark a minute, and an intermediary may keep a connection alive without one.
const QUIET: Duration = Duration::from_secs(3 * 60);

/// Time for a stream to go on without an object of the initial state, or with something else,
/// before its end mark. Servers that do not know streaming lists never send one.
const END_MARK: Duration = Duration::from_secs(10);

/// Time for the whole initial state as a stream: enough for the largest clusters through a link of
/// 10 Mbit/s. Slower ones get pages, which may take longer.
const INITIAL_STREAM: Duration = Duration::from_secs(5 * 60);

/// Lists and watches one kind and tells `sink` about it, until dropped.
///
/// # Invariants
///
/// Every [`Observed::Listing`] comes when the server has accepted to list; after it come one
/// `Set` per readable object, then [`Observed::Listed`], or another `Listing` if it broke off.
pub async fn follow<K: Kind, S: Sink<K>>(
    server: &ApiServer,
    selector: &Selector<K>,
    sink: &mut S,
) -> Infallible {
    let mut following = Following {
        server,
        selector,
        sink,
        backoff: Backoff::default(),
        outage: Outage::default(),
        unreadable: UnreadableObjects::default(),
        population: Population::default(),
    };
    let mut position = Position::new();
    loop {
        if let Err(error) = following.go_on(&mut position).await {
            following.pause(&mut position, &error).await;
        }
    }
}

/// A complete list.
struct Listed {
    resource_version: String,
    objects: usize,
}

struct Following<'a, K, S> {
    server: &'a ApiServer,
    selector: &'a Selector<K>,
    sink: &'a mut S,
    backoff: Backoff,
    outage: Outage,
    unreadable: UnreadableObjects,
    population: Population,
}

impl<K: Kind, S: Sink<K>> Following<'_, K, S> {
    /// A list or a watch, to its end. `Ok` if it ended in order.
    async fn go_on(&mut self, position: &mut Position) -> Result<(), ApiError> {
        if let Position::Listing { paging, .. } = *position {
            let listed = self.list(paging).await?;
            self.complete(position, listed).await?;
        }
        let lasting = SHORTEST_WATCH.mul_f64(1.0 + roll());
        let mut watch = Watch::open(self.server, self.selector, position.start(), lasting).await?;
        self.sink.notice(Notice::Connected);
        if matches!(position, Position::Streaming { .. }) {
            let listed = self.initial(&mut watch).await?;
            self.complete(position, listed).await?;
        }
        self.backoff.working(Instant::now());
        self.changes(watch, position).await
    }

    /// The whole state, page by page.
    async fn list(&mut self, paging: Paging) -> Result<Listed, ApiError> {
        let mut pages = Pages::new(self.server, self.selector, paging);
        let mut objects = 0;
        loop {
            let page = pages.next().await?;
            let contents: Contents<'_> = pages.contents(&page)?;
            if pages.is_first() {
                self.sink.notice(Notice::Connected);
                self.begin_list().await;
            }
            for object in &contents.objects {
                self.set(Object::read(object)).await;
            }
            objects += contents.objects.len();
            if let Some(resource_version) = pages.advance(&page, contents.metadata)? {
                return Ok(Listed {
                    resource_version,
                    objects,
                });
            }
        }
    }

    /// The whole state, as the events that a watch begins with.
    async fn initial(&mut self, watch: &mut Watch) -> Result<Listed, ApiError> {
        self.begin_list().await;
        let (mut objects, mut is_state) = (0_usize, true);
        let mut end = Instant::now() + END_MARK;
        let mut limit = ListLimit::new(INITIAL_STREAM);
        loop {
            if !is_state && Instant::now() >= end {
                return Err(malformed("the end of the list was never marked"));
            }
            limit.add_bytes(watch.take_received())?;
            let event = match watch.next(end).await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let problem = "the stream ended before the list was complete";
                    return Err(malformed(problem));
                }
                Err(ApiError::Silent(_)) => {
                    return Err(malformed("the end of the list was not marked in time"));
                }
                Err(error) => return Err(error),
            };
            let is_object = matches!(event, Event::Added(_));
            limit.add_objects(usize::from(is_object))?;
            match event {
                Event::Added(object) => {
                    objects += 1;
                    drop(self.set(object).await);
                }
                Event::Modified(object) => drop(self.set(object).await),
                Event::Gone(object) => {
                    objects = objects.saturating_sub(1);
                    drop(self.gone(object).await);
                }
                Event::Bookmark(bookmark) if bookmark.ends_initial => {
                    let resource_version = bookmark.resource_version;
                    return Ok(Listed {
                        resource_version,
                        objects,
                    });
                }
                Event::Bookmark(_) => {}
            }
            // Anything but an added object comes after the state, and then the mark is due.
            if is_state {
                is_state = is_object;
                end = limit.deadline().min(Instant::now() + END_MARK);
            }
        }
    }

    async fn begin_list(&mut self) {
        self.unreadable.begin_list();
        self.sink.observe(Observed::Listing).await;
    }

    async fn complete(&mut self, position: &mut Position, listed: Listed) -> Result<(), ApiError> {
        if !is_point(&listed.resource_version) {
            return Err(malformed("a list has no resource version to watch from"));
        }
        self.sink.observe(Observed::Listed).await;
        self.unreadable.end_list();
        let now = Instant::now();
        let shrink = self.population.listed(listed.objects, now);
        self.report(shrink);
        position.listed(&listed.resource_version);
        self.backoff.working(now);
        self.current();
        Ok(())
    }

    /// What changes, until the watch ends.
    async fn changes(&mut self, mut watch: Watch, position: &mut Position) -> Result<(), ApiError> {
        let mut is_mute = true;
        loop {
            let event = match watch.next(Instant::now() + QUIET).await {
                // The server forgot to end it. The connection is alive, or it had failed sooner.
                Ok(None) | Err(ApiError::Silent(_)) => break,
                Ok(Some(event)) => event,
                Err(error) => return Err(error),
            };
            let resource_version = match event {
                Event::Added(object) => {
                    self.population.added(Instant::now());
                    self.set(object).await
                }
                Event::Modified(object) => self.set(object).await,
                Event::Gone(object) => {
                    let shrink = self.population.gone(Instant::now());
                    self.report(shrink);
                    self.gone(object).await
                }
                Event::Bookmark(bookmark) => bookmark.resource_version,
            };
            position.advance(&resource_version);
            is_mute = false;
            self.current();
        }
        if watch.age() < SUSPICIOUSLY_SHORT {
            if is_mute {
                let problem = "a watch ended as soon as it began";
                return Err(ApiError::Broken(problem.into()));
            }
            sleep(short_wait(roll())).await;
        }
        Ok(())
    }

    async fn set(&mut self, object: Object<K>) -> String {
        match object.state {
            Ok(state) => {
                self.readable(&state);
                self.sink.observe(Observed::Set(state)).await;
            }
            Err(problem) => self.undecodable(&problem),
        }
        object.resource_version
    }

    async fn gone(&mut self, object: Object<K>) -> String {
        let state = object
            .state
            .unwrap_or_else(|problem| K::named(&problem.name));
        self.readable(&state);
        self.sink.observe(Observed::Gone(state)).await;
        object.resource_version
    }

    fn readable(&mut self, object: &K) {
        let metadata = object.metadata();
        self.unreadable.remove(&metadata.namespace, &metadata.name);
    }

    fn undecodable(&mut self, problem: &Undecodable) {
        let name = &problem.name;
        if let Some(unreadable) = self.unreadable.add(&name.namespace, &name.name) {
            tracing::warn!(
                server = self.server.address(),
                kind = K::NAME,
                %name,
                unreadable,
                error = %problem.source,
                "an object cannot be read: its last readable state stays in use",
            );
        }
        self.sink.notice(Notice::Undecodable(problem));
    }

    fn report(&self, shrink: Option<Shrink>) {
        if let Some(Shrink { before, after }) = shrink {
            tracing::warn!(
                server = self.server.address(),
                kind = K::NAME,
                before,
                after,
                "most objects are gone at once: their rules are removed; if that was not meant, \
                 restore the objects in the cluster",
            );
        }
    }

    /// A list is complete, or an event or a bookmark came.
    fn current(&mut self) {
        self.sink.notice(Notice::Current);
        if let Some(failures) = self.outage.ended() {
            let server = self.server.address();
            tracing::info!(
                server,
                kind = K::NAME,
                failures,
                "the API server answers again"
            );
        }
    }

    async fn pause(&mut self, position: &mut Position, error: &ApiError) {
        let delay = position.retreat(error);
        if delay == RetryDelay::None {
            let (server, error) = (self.server.address(), chain(error));
            tracing::info!(
                server,
                kind = K::NAME,
                error,
                "no streaming list: listing pages"
            );
            return;
        }
        let pause = self.backoff.failed(delay, Instant::now(), roll());
        let pause = pause.max(error.retry_after());
        if let Some(failures) = self.outage.failed(error.status()) {
            let (server, error) = (self.server.address(), chain(error));
            tracing::warn!(
                server,
                kind = K::NAME,
                failures,
                ?pause,
                error,
                "watching failed"
            );
        }
        self.sink.notice(Notice::Failed { error, pause });
        sleep(pause).await;
    }
}
