//! A node that follows a server, and the rules that come of it.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use deltaproxy::testing::host::Fake;
use deltaproxy::testing::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use deltaproxy::testing::model::{Change, Kind};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{LocalMode, RenderSettings};
use deltaproxy::testing::render::{Options, PartialRestore};
use deltaproxy::testing::sync::{Syncer, SyncerOptions};
use deltaproxy::testing::tracker::Tracker;
use deltaproxy::testing::watch::api::{
    self, ApiClient, Encoding, RateLimit, ReflectorEvent, Selector,
};
use deltaproxy::testing::watch::{ChangeReceivers, Ingester, SourceEvent, change_channels};
use futures::FutureExt;
use kube::Client;
use tokio::time::timeout;

use super::cluster::{Cluster, Written};
use super::scripted::{Asked, Reply, client};

/// A server of this client, asked for protobuf.
pub fn server(client: Client) -> ApiClient {
    ApiClient::new(client, "test", Encoding::Protobuf, RateLimit::default())
}

/// A runtime in virtual time.
pub fn virtual_time() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap()
}

/// When rules are restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// After each change.
    Always,
    /// When all is over.
    Last,
}

/// Rules of one family out of what is observed.
pub struct Rules {
    syncer: Syncer<Fake>,
    restored: Restored,
    /// Rules that must be there at all times, once they are.
    lasting: Option<&'static str>,
}

impl Rules {
    fn new(restored: Restored) -> Self {
        let options = SyncerOptions {
            render_settings: RenderSettings {
                fixed: Options::defaults(IpFamily::V4),
                local_mode: LocalMode::ClusterCidr(Vec::new()),
                node_port_addresses: Vec::new(),
                bind_address: None,
            },
            partial_restore: PartialRestore::ChangedChains,
            full_sync_interval: Duration::from_secs(3600),
        };
        let tracker = Tracker::new(SystemTime::UNIX_EPOCH);
        Self {
            syncer: Syncer::new(Fake::default(), tracker, options, Instant::now),
            restored,
            lasting: None,
        }
    }

    /// The rules, sorted: which of two Services comes first in a shared chain is a matter of the
    /// history.
    fn restore(&mut self) -> Vec<String> {
        self.syncer.once(&[]).now_or_never().unwrap();
        let text = self.syncer.iptables().rules().to_save_text();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    fn apply(&mut self, change: Change) {
        self.syncer.tracker.apply(change);
        if self.restored == Restored::Always && self.syncer.tracker.has_listed_all() {
            let rules = self.restore();
            let has = |text: &str| rules.iter().any(|rule| rule.contains(text));
            assert!(self.lasting.is_none_or(has), "{rules:#?}");
        }
    }
}

/// Ingester, and the rules that come of what it sends.
struct Node {
    ingester: Ingester,
    changes: ChangeReceivers,
    rules: Rules,
}

impl Node {
    fn new(rules: Rules) -> Self {
        let (senders, changes) = change_channels(None);
        Self {
            ingester: Ingester::new(senders, "here".into()),
            changes,
            rules,
        }
    }

    /// Lets the ingester observe something, and applies what it sends.
    fn observe(&mut self, observe: impl FnOnce(&mut Ingester)) {
        observe(&mut self.ingester);
        for change in self.changes.families.v4.take() {
            self.rules.apply(change);
        }
    }
}

/// Receiver of the observations of all three kinds, as in the daemon.
#[derive(Clone)]
struct Observer(Arc<Mutex<Node>>);

impl Observer {
    fn handle_kind_event(&self, kind: Kind, event: &ReflectorEvent<'_>) {
        if let ReflectorEvent::Undecodable(problem) = event {
            let name = &problem.name;
            let mut node = self.0.lock().unwrap();
            node.observe(|ingester| ingester.keep(kind, &name.namespace, &name.name));
        }
    }
}

macro_rules! observes {
    ($object:ty, $kind:ident, $method:ident) => {
        impl api::Observer<$object> for Observer {
            fn on_source_event(&mut self, observed: SourceEvent<$object>) {
                let mut node = self.0.lock().unwrap();
                node.observe(|ingester| ingester.$method(observed));
            }

            fn on_reflector_event(&mut self, event: ReflectorEvent<'_>) {
                Self::handle_kind_event(self, Kind::$kind, &event);
            }
        }
    };
}

observes!(ServiceObject, Service, service);
observes!(EndpointSliceObject, EndpointSlice, endpoint_slice);
observes!(NodeObject, Node, node);

/// Follows a server for so long.
pub async fn follow(server: &ApiClient, time: Duration, rules: Rules) -> Followed {
    let observer = Observer(Arc::new(Mutex::new(Node::new(rules))));
    let selectors = (
        Selector::services(),
        Selector::slices(),
        Selector::node("here"),
    );
    let mut sinks = (observer.clone(), observer.clone(), observer.clone());
    let all = async {
        tokio::join!(
            api::list_and_watch::<ServiceObject, _>(server, &selectors.0, &mut sinks.0),
            api::list_and_watch::<EndpointSliceObject, _>(server, &selectors.1, &mut sinks.1),
            api::list_and_watch::<NodeObject, _>(server, &selectors.2, &mut sinks.2),
        )
    };
    let _ = timeout(time, all).await;
    drop(sinks);
    let node = Arc::into_inner(observer.0).unwrap().into_inner().unwrap();
    let mut rules = node.rules;
    let has_listed_all = rules.syncer.tracker.has_listed_all();
    Followed {
        rules: rules.restore(),
        has_listed_all,
    }
}

/// Outcome of following a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    rules: Vec<String>,
    /// Every kind was listed.
    has_listed_all: bool,
}

impl Followed {
    /// The rules are those of a fresh list.
    #[track_caller]
    pub fn ends_as(&self, listed: &[String], what: impl Debug) {
        let lacks = |these: &[String], those: &[String]| {
            let lines = these.iter().filter(|line| !those.contains(line));
            lines.cloned().collect::<Vec<_>>()
        };
        let (missing, wrong) = (lacks(listed, &self.rules), lacks(&self.rules, listed));
        assert!(
            self.has_listed_all && self.rules == listed,
            "{what:?}: synced: {}, missing: {missing:#?}, wrong: {wrong:#?}",
            self.has_listed_all
        );
    }
}

/// The rules of a fresh list.
pub fn listed(cluster: &Cluster) -> Vec<String> {
    let cluster = cluster.clone();
    let client = move || client(move |asked| cluster.answer(asked, Written::Protobuf));
    virtual_time().block_on(async {
        let server = server(client());
        let found = api::snapshot(&server, "here", Some(Duration::from_secs(10)))
            .await
            .unwrap();
        let mut node = Node::new(Rules::new(Restored::Last));
        for service in &found.services.objects {
            node.observe(|ingester| ingester.service(SourceEvent::Set(service)));
        }
        for slice in &found.slices.objects {
            node.observe(|ingester| ingester.endpoint_slice(SourceEvent::Set(slice)));
        }
        for object in &found.nodes.objects {
            node.observe(|ingester| ingester.node(SourceEvent::Set(object)));
        }
        node.rules.restore()
    })
}

/// Follows, in virtual time, a server that answers like this.
pub fn followed(time: Duration, answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Followed {
    virtual_time().block_on(async {
        let rules = Rules::new(Restored::Last);
        follow(&server(client(answer)), time, rules).await
    })
}

/// Follows with a restore after each change: the Service `still`, which never changes, is always
/// there once it was.
pub fn restored(time: Duration, answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Followed {
    virtual_time().block_on(async {
        let mut rules = Rules::new(Restored::Always);
        rules.lasting = Some("ns/still:p -> 10.180.0.1:8080");
        follow(&server(client(answer)), time, rules).await
    })
}
