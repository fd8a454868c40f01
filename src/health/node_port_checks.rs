//! Health check node ports that Services ask for: their changes by a sync, their pages, whose bytes
//! are an interface to load balancers, and the servers of one family.
//!
//! The servers run on a thread of their own: the thread of syncs may be busy for seconds at tens of
//! thousands of Services, and load balancers take a node out of service whose answers are later
//! than a second or two. A port that is already in use delays no sync, and is retried without one.
//!
//! # Invariants
//!
//! - A server with the same Service, port and address keeps running, with its connections. One of
//!   all addresses of the family follows the addresses that answer.
//! - Servers that have to go are closed, and their ports free, before others are opened.
//!
//! # Source
//!
//! Upstream: pkg/proxy/servicechangetracker.go, `HealthCheckNodePorts`;
//! pkg/proxy/healthcheck/service_health.go, `SyncServices`, `hcHandler` (v1.37)
//!
//! Differs from upstream: kube-proxy retries a port in use only at the next sync, which may be an
//! hour later, with an Event each time; closes all addresses of a port if one fails; and keeps the
//! addresses of its start.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{io, thread};

use futures::future::OptionFuture;
use http::StatusCode;
use http::header::HeaderValue;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::pages::Health;
use crate::clock;
use crate::events::{Event, Recorder};
use crate::model::{ServiceName, ServiceState, Services};
use crate::net::{DoublingDelay, IpFamily, Port};
use crate::select::local_ready;
use crate::telemetry::{
    ConnectionLimit, ListenError, Reply, listen_in_family, reply, serve_within,
};

/// Health check node port of a Service, with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check {
    /// `spec.healthCheckNodePort`.
    pub port: Port,
    /// Ready endpoints on this node.
    pub endpoints: usize,
}

impl Check {
    /// Returns the check of a Service; `None` if it has none.
    pub(crate) fn of(state: &ServiceState) -> Option<Self> {
        let port = state.health_check()?;
        let endpoints = local_ready(state);
        Some(Self { port, endpoints })
    }
}

/// Addresses that answer the health checks of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckAddresses {
    /// Every address of the family.
    All,
    /// These addresses of the node, in any order.
    Only(Vec<IpAddr>),
}

/// Changes of the checks of one family by a successful sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckChanges {
    pub addresses: CheckAddresses,
    /// Checks that are new or changed; `None`: deleted.
    pub changed: Vec<(ServiceName, Option<Check>)>,
}

impl CheckChanges {
    /// Compares the Services that a sync applied with their state before.
    pub(crate) fn new(
        addresses: CheckAddresses,
        before: &[(ServiceName, ServiceState)],
        now: &impl Services,
    ) -> Self {
        let changed = before.iter().filter_map(|(name, before)| {
            let check = now.get(name).and_then(Check::of);
            (check != Check::of(before)).then(|| (name.clone(), check))
        });
        Self {
            addresses,
            changed: changed.collect(),
        }
    }
}

/// Header that tells load balancers the weight of this node.
const WEIGHT: &str = "x-load-balancing-endpoint-weight";

/// Content of the page of one Service. Clones share it.
#[derive(Debug, Clone)]
struct CheckPage {
    service: ServiceName,
    endpoints: Arc<AtomicUsize>,
    health: Health,
}

impl CheckPage {
    fn new(service: ServiceName, health: Health) -> Self {
        Self {
            service,
            endpoints: Arc::default(),
            health,
        }
    }

    fn set_endpoints(&self, endpoints: usize) {
        self.endpoints.store(endpoints, Ordering::Relaxed);
    }

    fn answer(&self) -> Reply {
        self.answer_at(clock::instant())
    }

    /// Returns the answer. The deletion of this Node does not count: `/healthz` reports it.
    fn answer_at(&self, now: std::time::Instant) -> Reply {
        let endpoints = self.endpoints.load(Ordering::Relaxed);
        let healthy = self.health.report(now).healthy;
        let status = if healthy && endpoints > 0 {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let body = body(&self.service, endpoints, healthy);
        let mut reply = reply(status, "application/json", body);
        reply
            .headers_mut()
            .insert(WEIGHT, HeaderValue::from(endpoints));
        reply
    }
}

/// Returns JSON, indented by tabs, without a line break at the end.
fn body(service: &ServiceName, endpoints: usize, healthy: bool) -> String {
    let [namespace, name] = [service.namespace(), service.name()].map(Value::from);
    format!(
        "{{\n\
         \t\"service\": {{\n\
         \t\t\"namespace\": {namespace},\n\
         \t\t\"name\": {name}\n\
         \t}},\n\
         \t\"localEndpoints\": {endpoints},\n\
         \t\"serviceProxyHealthy\": {healthy}\n\
         }}"
    )
}

/// Parts that the servers of both families share.
#[derive(Debug, Clone)]
pub(crate) struct CheckServerContext {
    /// Health of the process, which every answer depends on.
    pub health: Health,
    /// Recorder of Events about ports in use.
    pub recorder: Recorder,
    /// Name of this node, for these Events.
    pub node_name: String,
    pub connection_limit: ConnectionLimit,
    /// Permits of all their listening sockets together, so that open files are left for probes and
    /// for the pipes of iptables programs.
    pub sockets: Arc<Semaphore>,
}

#[derive(Debug)]
pub(crate) struct CheckServers {
    shared: CheckServerContext,
    family: IpFamily,
    /// Addresses that answer; all servers follow them.
    addresses: watch::Sender<BTreeSet<IpAddr>>,
    open: BTreeMap<ServiceName, OpenCheck>,
    /// Checks of which an address is not open.
    failing: BTreeMap<ServiceName, ListenRetry>,
}

impl CheckServers {
    pub(crate) fn new(shared: CheckServerContext, family: IpFamily) -> Self {
        Self {
            shared,
            family,
            addresses: watch::Sender::default(),
            open: BTreeMap::new(),
            failing: BTreeMap::new(),
        }
    }

    /// Runs the servers on a thread of their own until there are no further syncs, then closes
    /// them.
    pub(crate) async fn run(self, changes: UnboundedReceiver<CheckChanges>) -> io::Result<()> {
        let (closed_sender, closed) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            runtime.block_on(self.follow(changes));
            // Closes all connections.
            drop(runtime);
            // At the end of the process there may be no receiver.
            let _ = closed_sender.send(());
        };
        let thread = thread::Builder::new().name("health checks".to_owned());
        thread.spawn(run)?;
        // An error means that the thread panicked, which ends the process.
        let _ = closed.await;
        Ok(())
    }

    /// Applies the changes of each sync until there are no further ones, then closes every server.
    async fn follow(mut self, mut changes: UnboundedReceiver<CheckChanges>) {
        loop {
            let retry = self.failing.values().map(|retry| retry.due).min();
            tokio::select! {
                change = changes.recv() => match change {
                    Some(change) => self.take(&change).await,
                    None => return,
                },
                Some(()) = OptionFuture::from(retry.map(sleep_until)) => self.retry(),
            }
        }
    }

    /// Applies the changes of a sync, and retries what failed before.
    async fn take(&mut self, changes: &CheckChanges) {
        let addresses = self.addresses(&changes.addresses);
        self.close(changes, &addresses).await;
        let touched = changes.changed.iter().map(|(name, _)| name);
        let names: BTreeSet<ServiceName> = if addresses == *self.addresses.borrow() {
            touched.chain(self.failing.keys()).cloned().collect()
        } else {
            touched.chain(self.open.keys()).cloned().collect()
        };
        self.addresses.send_replace(addresses);
        for (name, check) in &changes.changed {
            if let Some(check) = check {
                self.set(name, *check);
            }
        }
        self.open_all(names);
    }

    fn retry(&mut self) {
        let now = Instant::now();
        let due = self.failing.iter().filter(|(_, retry)| retry.due <= now);
        let due = due.map(|(name, _)| name.clone()).collect();
        self.open_all(due);
    }

    /// Differs from upstream: link-local addresses of IPv6 are left out. To listen on them, or to
    /// connect, takes the name of an interface, which kube-proxy does not set.
    fn addresses(&self, addresses: &CheckAddresses) -> BTreeSet<IpAddr> {
        let is_ours = |ip: &&IpAddr| {
            let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
            IpFamily::of(**ip) == self.family && !is_link_local
        };
        match (addresses, self.family) {
            (CheckAddresses::All, IpFamily::V4) => [Ipv4Addr::UNSPECIFIED.into()].into(),
            (CheckAddresses::All, IpFamily::V6) => [Ipv6Addr::UNSPECIFIED.into()].into(),
            (CheckAddresses::Only(ips), _) => ips.iter().filter(is_ours).copied().collect(),
        }
    }

    /// Closes servers that should not exist, and waits until they are closed.
    async fn close(&mut self, changes: &CheckChanges, addresses: &BTreeSet<IpAddr>) {
        let mut closing = Vec::new();
        for (name, check) in &changes.changed {
            let port = check.map(|check| check.port);
            if self.open.get(name).is_some_and(|o| Some(o.port) != port) {
                debug!(family = %self.family, service = %name, "closing the health check node port");
                self.failing.remove(name);
                let open = self.open.remove(name).map(|open| open.servers);
                closing.extend(open.into_iter().flat_map(BTreeMap::into_values));
            }
        }
        let before = self.addresses.borrow().clone();
        let removed: Vec<IpAddr> = before.difference(addresses).copied().collect();
        for open in self.open.values_mut() {
            closing.extend(open.take_servers(&removed, addresses));
        }
        for server in closing {
            server.abort();
            // The error is that it was aborted.
            let _ = server.await;
        }
    }

    fn set(&mut self, name: &ServiceName, check: Check) {
        let health = &self.shared.health;
        let open = self.open.entry(name.clone()).or_insert_with(|| {
            let page = CheckPage::new(name.clone(), health.clone());
            OpenCheck {
                port: check.port,
                page,
                servers: BTreeMap::new(),
            }
        });
        open.page.set_endpoints(check.endpoints);
    }

    fn open_all(&mut self, names: BTreeSet<ServiceName>) {
        for name in names {
            let open = self.open.get_mut(&name);
            match open.map_or(Ok(()), |open| {
                open.open_missing(&self.addresses, &self.shared)
            }) {
                Ok(()) => self.opened(&name),
                Err(error) => self.failed(&name, &error),
            }
        }
    }

    fn opened(&mut self, name: &ServiceName) {
        if self.failing.remove(name).is_some() {
            info!(family = %self.family, service = %name, "health check node port is served now");
        }
    }

    /// Notes a failure; logs it unless the last attempt failed.
    fn failed(&mut self, name: &ServiceName, error: &ListenError) {
        let Some(port) = self.open.get(name).map(|open| open.port) else {
            return;
        };
        let now = Instant::now();
        let first = ListenRetry {
            failures: 0,
            due: now,
        };
        let retry = self.failing.entry(name.clone()).or_insert(first);
        let has_failed = retry.failures > 0;
        retry.failed(now);
        if !has_failed {
            self.log_failed(name, port, error);
        }
    }

    fn log_failed(&self, name: &ServiceName, port: Port, error: &ListenError) {
        let holder = self.holder(name, port);
        let cause = format!("{error}: {}{holder}", error.source);
        let family = self.family;
        let remedy = match error.source.kind() {
            io::ErrorKind::AddrInUse if holder.is_empty() => {
                ". Find the program that listens on it: `ss -ltnp`"
            }
            // "This field cannot be updated once set."
            //
            // Upstream: staging/src/k8s.io/api/core/v1/types.go, `ServiceSpec` (v1.37)
            io::ErrorKind::AddrInUse => {
                ". Delete one of the two Services, and create it with another \
                 spec.healthCheckNodePort: the API server does not allow to change it"
            }
            _ => "",
        };
        warn!(
            %family, service = %name, %port,
            "cannot serve the health check node port: {cause}; until it is served, load balancers \
             may send the Service no traffic through this node; retrying{remedy}"
        );
        self.record(name, port, &cause);
    }

    fn record(&self, name: &ServiceName, port: Port, cause: &str) {
        let node = &self.shared.node_name;
        let text =
            format!("node {node} failed to start healthcheck \"{name}\" on port {port}: {cause}");
        self.shared
            .recorder
            .record(Event::CheckNotServed(name.clone(), text));
    }

    /// Returns the other Service that has the port, if it is known.
    fn holder(&self, name: &ServiceName, port: Port) -> String {
        let has_it = |(other, open): &(&ServiceName, &OpenCheck)| {
            *other != name && open.port == port && !open.servers.is_empty()
        };
        let holder = self.open.iter().find(has_it);
        holder.map_or_else(String::new, |(other, _)| {
            format!("; it is also the health check port of `{other}`")
        })
    }
}

/// Retry delay: a port is often in use for a moment only, by a connection or by a program that is
/// ending, and sometimes by a program that listens on it.
const RETRY_DELAY: DoublingDelay = DoublingDelay::of_retries(Duration::from_secs(60));

/// Health check node port of one Service, with its servers.
///
/// Several addresses need one socket: a server listens on all of the family, and closes connections
/// to others. If another program listens on the port at one of these, or the Service had a single
/// address first, each has a server of its own.
#[derive(Debug)]
struct OpenCheck {
    port: Port,
    page: CheckPage,
    servers: BTreeMap<IpAddr, AbortOnDropHandle<()>>,
}

impl OpenCheck {
    /// Takes the servers that have to be closed: those of removed addresses, and that of all
    /// addresses if none is left.
    fn take_servers(
        &mut self,
        removed: &[IpAddr],
        addresses: &BTreeSet<IpAddr>,
    ) -> Vec<AbortOnDropHandle<()>> {
        if addresses.is_empty() {
            return std::mem::take(&mut self.servers).into_values().collect();
        }
        let removed = removed.iter();
        removed.filter_map(|ip| self.servers.remove(ip)).collect()
    }

    /// Opens the addresses that have no server; returns the first failure.
    fn open_missing(
        &mut self,
        addresses: &watch::Sender<BTreeSet<IpAddr>>,
        shared: &CheckServerContext,
    ) -> Result<(), ListenError> {
        let wanted = addresses.borrow().clone();
        if self.servers.keys().any(IpAddr::is_unspecified) {
            return Ok(());
        }
        if let Some(first) = wanted.first()
            && wanted.len() > 1
            && self.servers.is_empty()
        {
            let all = match first {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            // The program in the way may use an address that is not wanted.
            if self.listen(all, addresses, shared).is_ok() {
                return Ok(());
            }
        }
        let mut result = Ok(());
        for ip in wanted {
            if !self.servers.contains_key(&ip) {
                result = result.and(self.listen(ip, addresses, shared));
            }
        }
        result
    }

    /// Starts a server on an address, unless all sockets are in use.
    ///
    /// Differs from upstream: kube-proxy listens until the process is out of open files, and then
    /// starts no program and answers no probe.
    fn listen(
        &mut self,
        ip: IpAddr,
        addresses: &watch::Sender<BTreeSet<IpAddr>>,
        shared: &CheckServerContext,
    ) -> Result<(), ListenError> {
        let address = SocketAddr::new(ip, self.port.get());
        let permit = Arc::clone(&shared.sockets).try_acquire_owned();
        let permit = permit.map_err(|_| ListenError {
            address,
            source: io::Error::other("no socket is left; raise the limit of open files"),
        })?;
        let listener = listen_in_family(address)?;
        let (page, addresses) = (self.page.clone(), addresses.subscribe());
        let answers_on = move |local: IpAddr| {
            let addresses = addresses.borrow();
            addresses.contains(&local) || addresses.iter().any(IpAddr::is_unspecified)
        };
        // The server ends when its handle is dropped.
        let never = CancellationToken::new();
        let server = serve_within(
            shared.connection_limit.clone(),
            listener,
            answers_on,
            move |_| ready(page.answer()),
            never,
        );
        let server = async move {
            server.await;
            drop(permit);
        };
        let server = AbortOnDropHandle::new(tokio::spawn(server));
        self.servers.insert(ip, server);
        Ok(())
    }
}

/// Port that could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListenRetry {
    failures: u32,
    due: Instant,
}

impl ListenRetry {
    /// Notes a failure. An attempt before it was due does not make the delay longer.
    fn failed(&mut self, now: Instant) {
        if now >= self.due {
            self.failures += 1;
            self.due = now + RETRY_DELAY.after(self.failures);
        }
    }
}

#[cfg(test)]
#[path = "tests/check.rs"]
mod change_tests;

#[cfg(test)]
#[path = "tests/check_page.rs"]
mod page_tests;

#[cfg(test)]
#[path = "tests/check_servers.rs"]
mod server_tests;

#[cfg(test)]
#[path = "tests/check_listen.rs"]
mod listen_tests;
