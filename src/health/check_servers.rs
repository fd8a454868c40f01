//! Servers of the health check node ports of one family.
//!
//! They run on a thread of their own: the thread of syncs may be busy for seconds at tens of
//! thousands of Services, and load balancers take a node out of service whose answers are later
//! than a second or two. A port that is already in use delays no sync, and is retried without one.
//!
//! # Invariants
//!
//! - A server with the same Service, port and address keeps running, with its connections.
//! - Servers that have to go are closed, and their ports free, before others are opened.
//!
//! # Source
//!
//! Upstream: pkg/proxy/healthcheck/service_health.go, `SyncServices` (v1.37)
//!
//! Differs from upstream: kube-proxy retries a port in use only at the next sync, which may be an
//! hour later, with an Event each time; closes all addresses of a port if one fails; and keeps the
//! addresses of its start.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::check::{Check, CheckAddresses, CheckChanges, CheckPage};
use super::pages::Health;
use crate::events::{Event, Recorder};
use crate::model::ServiceName;
use crate::net::{IpFamily, Port};
use crate::telemetry::{ConnectionLimit, ListenError, listen_in_family, serve_within};

/// First delay: a port is often in use for a moment only, by a connection or by a program that is
/// ending.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest delay: another program listens on the port.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

type CheckTask = (CheckServers, UnboundedReceiver<CheckChanges>);

/// Parts that the servers of both families share.
#[derive(Debug, Clone)]
pub(crate) struct CheckServerContext {
    /// Health of the process, which every answer depends on.
    pub health: Health,
    /// Recorder of Events about ports in use.
    pub recorder: Recorder,
    /// Name of this node, for these Events.
    pub node_name: String,
    /// Limit of all their connections together.
    pub connection_limit: ConnectionLimit,
    /// Permits of all their listening sockets together, so that open files are left for probes and
    /// for the pipes of iptables programs.
    pub sockets: Arc<Semaphore>,
}

/// Servers of one family.
#[derive(Debug)]
pub(crate) struct CheckServers {
    shared: CheckServerContext,
    family: IpFamily,
    addresses: BTreeSet<IpAddr>,
    open: BTreeMap<ServiceName, OpenCheck>,
    /// Checks of which an address is not open.
    failing: BTreeMap<ServiceName, ListenRetry>,
}

/// Health check node port of one Service, with its servers.
#[derive(Debug)]
struct OpenCheck {
    port: Port,
    page: CheckPage,
    servers: BTreeMap<IpAddr, AbortOnDropHandle<()>>,
}

impl CheckServers {
    /// Returns a set without servers.
    pub(crate) fn new(shared: CheckServerContext, family: IpFamily) -> Self {
        Self {
            shared,
            family,
            addresses: BTreeSet::new(),
            open: BTreeMap::new(),
            failing: BTreeMap::new(),
        }
    }

    /// Runs the servers on a thread of their own until there are no further syncs, then closes
    /// them. Without another thread they run on this one.
    pub(crate) async fn run(self, changes: UnboundedReceiver<CheckChanges>) {
        let (task_sender, task_receiver) = oneshot::channel();
        let (closed_sender, closed_receiver) = oneshot::channel();
        match start(task_receiver, closed_sender) {
            Ok(()) => {
                // Cannot fail: the thread waits to receive it.
                let _ = task_sender.send((self, changes));
                // An error means that the thread panicked, which ends the process.
                let _ = closed_receiver.await;
            }
            Err(cause) => {
                warn!(
                    %cause,
                    "cannot start a thread for health checks: their answers wait for syncs, so load \
                     balancers may take this node out of service. Raise the limit of threads, then \
                     restart"
                );
                self.follow(changes).await;
            }
        }
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
        let names: BTreeSet<ServiceName> = if addresses == self.addresses {
            touched.chain(self.failing.keys()).cloned().collect()
        } else {
            touched.chain(self.open.keys()).cloned().collect()
        };
        self.addresses = addresses;
        for (name, check) in &changes.changed {
            if let Some(check) = check {
                self.set(name, *check);
            }
        }
        self.open_all(names);
    }

    /// Retries what is due.
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
        for ip in self.addresses.difference(addresses) {
            let servers = self.open.values_mut().map(|open| &mut open.servers);
            closing.extend(servers.filter_map(|servers| servers.remove(ip)));
        }
        for server in closing {
            server.abort();
            // The error is that it was aborted.
            let _ = server.await;
        }
    }

    fn set(&mut self, name: &ServiceName, check: Check) {
        let health = &self.shared.health;
        let open = self.open.entry(name.clone()).or_insert_with(|| OpenCheck {
            port: check.port,
            page: CheckPage::new(name.clone(), health.clone()),
            servers: BTreeMap::new(),
        });
        open.page.set_endpoints(check.endpoints);
    }

    fn open_all(&mut self, names: BTreeSet<ServiceName>) {
        for name in names {
            match self.open_missing(&name) {
                Ok(()) => self.opened(&name),
                Err(error) => self.failed(name, &error),
            }
        }
    }

    /// Opens the addresses that a Service lacks; returns the first failure.
    fn open_missing(&mut self, name: &ServiceName) -> Result<(), ListenError> {
        let Some(open) = self.open.get_mut(name) else {
            return Ok(());
        };
        let mut result = Ok(());
        for ip in &self.addresses {
            if open.servers.contains_key(ip) {
                continue;
            }
            let address = SocketAddr::new(*ip, open.port.get());
            match listen_within(&self.shared.sockets, address) {
                Ok((listener, permit)) => {
                    let (page, limit) = (open.page.clone(), self.shared.connection_limit.clone());
                    // The server ends when its handle is dropped.
                    let never = CancellationToken::new();
                    let server = serve_within(limit, listener, move |_| page.answer(), never);
                    let server = async move {
                        server.await;
                        drop(permit);
                    };
                    let server = AbortOnDropHandle::new(tokio::spawn(server));
                    open.servers.insert(*ip, server);
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    fn opened(&mut self, name: &ServiceName) {
        if self.failing.remove(name).is_some() {
            info!(family = %self.family, service = %name, "health check node port is served now");
        }
    }

    fn failed(&mut self, name: ServiceName, error: &ListenError) {
        let now = Instant::now();
        if let Some(retry) = self.failing.get_mut(&name) {
            retry.failed(now);
            return;
        }
        let Some(port) = self.open.get(&name).map(|open| open.port) else {
            return;
        };
        let holder = self.holder(&name, port);
        let cause = format!("{error}: {}{holder}", error.source);
        let (family, node) = (self.family, &self.shared.node_name);
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
        let text =
            format!("node {node} failed to start healthcheck \"{name}\" on port {port}: {cause}");
        self.shared
            .recorder
            .record(Event::CheckNotServed(name.clone(), text));
        self.failing.insert(name, ListenRetry::new(now));
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

/// Listens on an address of one family, unless all sockets are in use.
///
/// Differs from upstream: kube-proxy listens until the process is out of open files, and then
/// starts no program and answers no probe.
fn listen_within(
    sockets: &Arc<Semaphore>,
    address: SocketAddr,
) -> Result<(TcpListener, OwnedSemaphorePermit), ListenError> {
    let problem =
        "too many health check node ports for the limit of open files; raise it, then restart";
    let permit = Arc::clone(sockets).try_acquire_owned();
    let permit = permit.map_err(|_| ListenError {
        address,
        source: io::Error::other(problem),
    })?;
    Ok((listen_in_family(address)?, permit))
}

/// Port that could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListenRetry {
    wait: Duration,
    /// Time of the next attempt.
    due: Instant,
}

impl ListenRetry {
    /// Returns the state after the first failure.
    fn new(now: Instant) -> Self {
        Self {
            wait: FIRST_RETRY,
            due: now + FIRST_RETRY,
        }
    }

    /// Notes another failure. An attempt before it was due does not make the delay longer.
    fn failed(&mut self, now: Instant) {
        if now >= self.due {
            self.wait = (self.wait * 2).min(LONGEST_RETRY);
            self.due = now + self.wait;
        }
    }
}

/// Starts a thread for the servers that it is sent; reports when they are closed.
fn start(task: oneshot::Receiver<CheckTask>, closed: oneshot::Sender<()>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        if let Ok((servers, changes)) = task.blocking_recv() {
            runtime.block_on(servers.follow(changes));
        }
        // Closes all connections.
        drop(runtime);
        // At the end of the process there may be no receiver.
        let _ = closed.send(());
    };
    let thread = thread::Builder::new().name("health checks".to_owned());
    thread.spawn(run).map(drop)
}

#[cfg(test)]
#[path = "tests/check_servers.rs"]
mod tests;

#[cfg(test)]
mod retry_tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_a_minute() {
        let start = Instant::now();
        let mut retry = ListenRetry::new(start);
        let mut waits = vec![(retry.due - start).as_secs()];
        for _ in 0..8 {
            let now = retry.due;
            retry.failed(now);
            waits.push((retry.due - now).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn tries_between_do_not_count() {
        let start = Instant::now();
        let mut retry = ListenRetry::new(start);
        let before = retry;
        retry.failed(start + FIRST_RETRY / 2);
        assert_eq!(retry, before);
    }
}
