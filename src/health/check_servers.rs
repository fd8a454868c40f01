//! Servers of the health check node ports of one family.
//!
//! A port that is already in use delays no sync, and is retried without one.
//!
//! # Invariants
//!
//! - A server with the same Service, port and address keeps running, with its connections.
//! - Servers that have to go are closed, and their ports free, before others are opened.
//!
//! # Source
//!
//! Upstream: pkg/proxy/healthcheck/service_health.go, `SyncServices` (v1.36)
//!
//! Differs from upstream: kube-proxy retries a port in use only at the next sync, which may be an
//! hour later, with an Event each time; closes all addresses of a port if one fails; and keeps the
//! addresses of its start.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use futures::future::OptionFuture;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::check::{Answering, Check, CheckChanges};
use super::check_page::CheckPage;
use super::retry::ListenRetry;
use super::server::Health;
use crate::events::{Event, Recorder};
use crate::model::ServiceName;
use crate::net::{IpFamily, Port};
use crate::telemetry::{ConnectionLimit, ListenError, listen_in_family, serve_within};

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
}

/// Servers of one family.
#[derive(Debug)]
pub(crate) struct CheckServers {
    shared: CheckServerContext,
    family: IpFamily,
    addresses: BTreeSet<IpAddr>,
    open: BTreeMap<ServiceName, Open>,
    /// Checks of which an address is not open.
    failing: BTreeMap<ServiceName, ListenRetry>,
}

#[derive(Debug)]
struct Open {
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

    /// Runs until there are no further syncs, then closes every server.
    pub(super) async fn follow(mut self, mut changes: UnboundedReceiver<CheckChanges>) {
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
        let addresses = self.addresses(&changes.answering);
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
    fn addresses(&self, answering: &Answering) -> BTreeSet<IpAddr> {
        let is_ours = |ip: &&IpAddr| {
            let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
            IpFamily::of(**ip) == self.family && !is_link_local
        };
        match (answering, self.family) {
            (Answering::Everywhere, IpFamily::V4) => [Ipv4Addr::UNSPECIFIED.into()].into(),
            (Answering::Everywhere, IpFamily::V6) => [Ipv6Addr::UNSPECIFIED.into()].into(),
            (Answering::On(ips), _) => ips.iter().filter(is_ours).copied().collect(),
        }
    }

    /// Closes servers that should not exist, and waits until they are closed.
    async fn close(&mut self, changes: &CheckChanges, addresses: &BTreeSet<IpAddr>) {
        let mut closing = Vec::new();
        for (name, check) in &changes.changed {
            let port = check.map(|check| check.port);
            if self.open.get(name).is_some_and(|o| Some(o.port) != port) {
                debug!(family = %self.family, service = %name, "closing its health check");
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
            // It ends by being aborted, which is no news.
            let _ = server.await;
        }
    }

    fn set(&mut self, name: &ServiceName, check: Check) {
        let health = &self.shared.health;
        let open = self.open.entry(name.clone()).or_insert_with(|| Open {
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
            match listen_in_family(SocketAddr::new(*ip, open.port.get())) {
                Ok(listener) => {
                    let (page, limit) = (open.page.clone(), self.shared.connection_limit.clone());
                    // Its end is to be dropped with this.
                    let never = CancellationToken::new();
                    let server = serve_within(limit, listener, move |_| page.answer(), never);
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
            info!(family = %self.family, service = %name, "its health check is answered now");
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
        warn!(%family, service = %name, %port, "its health check is not answered yet: {cause}");
        let text =
            format!("node {node} failed to start healthcheck \"{name}\" on port {port}: {cause}");
        self.shared
            .recorder
            .say(Event::CheckNotServed(name.clone(), text));
        self.failing.insert(name, ListenRetry::new(now));
    }

    /// Returns the other Service that has the port, if it is known.
    fn holder(&self, name: &ServiceName, port: Port) -> String {
        let has_it = |(other, open): &(&ServiceName, &Open)| {
            *other != name && open.port == port && !open.servers.is_empty()
        };
        let holder = self.open.iter().find(has_it);
        holder.map_or_else(String::new, |(other, _)| {
            format!("; it is also the health check port of `{other}`")
        })
    }
}

#[cfg(test)]
#[path = "tests/check_servers.rs"]
mod tests;
