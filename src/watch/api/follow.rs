//! One kind of object, followed for ever.
//!
//! Apart because this is the order of things: list, watch, and after each end or failure the
//! decision where to go on; what a list or a watch is, is elsewhere.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;

use super::answer::PATIENCE;
use super::backoff::Backoff;
use super::client::ApiServer;
use super::dice::roll;
use super::error::{ApiError, chain, malformed};
use super::event::Event;
use super::kind::{Kind, Selector};
use super::object::{Object, ObjectName, Undecodable};
use super::outage::Outage;
use super::page::{Pages, Paging};
use super::position::{Haste, Position};
use super::sink::{Notice, Sink};
use super::watch::Watch;
use crate::watch::Observed;

/// Watches end after this to twice this, so that clients spread over servers again.
///
/// Upstream: k8s.io/client-go/tools/cache/reflector.go, `minWatchTimeout` (v1.36)
const SHORTEST_WATCH: Duration = Duration::from_secs(5 * 60);

/// A watch that ends sooner without having said anything counts as failed.
const SUSPICIOUSLY_SHORT: Duration = Duration::from_secs(5);

/// Longer than any watch: its own deadline comes first.
const UNLIMITED: Duration = Duration::from_secs(60 * 60);

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
        unreadable: Vec::new(),
    };
    let mut position = Position::new();
    loop {
        if let Err(error) = following.go_on(&mut position).await {
            following.pause(&mut position, &error).await;
        }
    }
}

struct Following<'a, K, S> {
    server: &'a ApiServer,
    selector: &'a Selector<K>,
    sink: &'a mut S,
    backoff: Backoff,
    outage: Outage,
    /// Objects of which it was logged that they can't be read. Normally none.
    unreadable: Vec<ObjectName>,
}

impl<K: Kind, S: Sink<K>> Following<'_, K, S> {
    /// A list or a watch, to its end. `Ok` if it ended in order.
    async fn go_on(&mut self, position: &mut Position) -> Result<(), ApiError> {
        if let Position::Listing(paging) = *position {
            let resource_version = self.list(paging).await?;
            self.complete(position, &resource_version).await?;
        }
        let lasting = SHORTEST_WATCH.mul_f64(1.0 + roll());
        let mut watch = Watch::open(self.server, self.selector, position.start(), lasting).await?;
        self.sink.notice(Notice::Connected);
        if matches!(position, Position::Streaming { .. }) {
            let resource_version = self.initial(&mut watch).await?;
            self.complete(position, &resource_version).await?;
        }
        self.changes(watch, position).await
    }

    /// The whole state, page by page.
    async fn list(&mut self, paging: Paging) -> Result<String, ApiError> {
        let mut pages = Pages::new(self.server, self.selector, paging);
        let mut is_first = true;
        loop {
            let page = pages.next().await?;
            let contents = page.contents()?;
            if std::mem::take(&mut is_first) {
                self.sink.notice(Notice::Connected);
                self.sink.observe(Observed::Listing).await;
            }
            for object in contents.objects() {
                self.set(Object::read(object)).await;
            }
            if let Some(resource_version) = pages.advance(&contents) {
                return Ok(resource_version);
            }
        }
    }

    /// The whole state, as the events that a watch begins with.
    async fn initial(&mut self, watch: &mut Watch) -> Result<String, ApiError> {
        self.sink.observe(Observed::Listing).await;
        while let Some(event) = watch.next(PATIENCE).await? {
            match event {
                Event::Set(object) => drop(self.set(object).await),
                Event::Gone(object) => drop(self.gone(object).await),
                Event::Bookmark(bookmark) if bookmark.ends_initial => {
                    return Ok(bookmark.resource_version);
                }
                Event::Bookmark(_) => {}
            }
        }
        // A server that does not know streaming lists never says that one is complete.
        Err(match watch.age() {
            age if age >= SHORTEST_WATCH => ApiError::Silent(age),
            _ => malformed("the stream ended before the list was complete"),
        })
    }

    async fn complete(
        &mut self,
        position: &mut Position,
        resource_version: &str,
    ) -> Result<(), ApiError> {
        if resource_version.is_empty() {
            return Err(malformed("a list has no resource version"));
        }
        self.sink.observe(Observed::Listed).await;
        position.reach(resource_version);
        self.succeeded();
        Ok(())
    }

    /// What changes, until the watch ends.
    async fn changes(&mut self, mut watch: Watch, position: &mut Position) -> Result<(), ApiError> {
        let mut is_mute = true;
        loop {
            let event = match watch.next(UNLIMITED).await {
                // The server forgot to end it. The connection is alive, or it had failed sooner.
                Ok(None) | Err(ApiError::Silent(_)) => break,
                Ok(Some(event)) => event,
                Err(error) => return Err(error),
            };
            let resource_version = match event {
                Event::Set(object) => self.set(object).await,
                Event::Gone(object) => self.gone(object).await,
                Event::Bookmark(bookmark) => bookmark.resource_version,
            };
            position.reach(&resource_version);
            is_mute = false;
            self.succeeded();
        }
        if is_mute && watch.age() < SUSPICIOUSLY_SHORT {
            return Err(malformed("a watch ended as soon as it began"));
        }
        self.succeeded();
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
        self.unreadable
            .retain(|name| name.name != metadata.name || name.namespace != metadata.namespace);
    }

    fn undecodable(&mut self, problem: &Undecodable) {
        if !self.unreadable.contains(&problem.name) {
            self.unreadable.push(problem.name.clone());
            tracing::warn!(
                server = self.server.address(),
                kind = K::NAME,
                name = %problem.name,
                error = %problem.source,
                "an object can't be read: its last readable state stands",
            );
        }
        self.sink.notice(Notice::Undecodable(problem));
    }

    fn succeeded(&mut self) {
        self.backoff.succeeded();
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
        match position.retreat(error) {
            Haste::AtOnce => {
                let (server, error) = (self.server.address(), chain(error));
                tracing::info!(
                    server,
                    kind = K::NAME,
                    error,
                    "no streaming list: listing pages"
                );
                return;
            }
            Haste::Soon => self.backoff.succeeded(),
            Haste::AfterPause => {}
        }
        let pause = self.backoff.failed(roll()).max(error.retry_after());
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
