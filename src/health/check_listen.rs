//! Listening sockets of health check node ports: their addresses and limit, and the delays of
//! attempts to open them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::check::CheckPage;
use crate::net::Port;
use crate::telemetry::{ConnectionLimit, ListenError, listen_in_family, serve_within};

/// First delay: a port is often in use for a moment only, by a connection or by a program that is
/// ending.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest delay: another program listens on the port.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Failure to open a socket of a health check node port.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckListenError {
    /// All sockets that health check node ports may have are in use.
    #[error("too many health check node ports for the limit of open files")]
    NoSocketLeft,
    /// The kernel refuses it.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Health check node port of one Service, with its servers.
///
/// Several addresses need one socket: a server listens on all of the family, and closes connections
/// to others. If another program listens on the port at one of these, or the Service had a single
/// address first, each has a server of its own.
#[derive(Debug)]
pub(super) struct OpenCheck {
    pub(super) port: Port,
    pub(super) page: CheckPage,
    pub(super) servers: BTreeMap<IpAddr, AbortOnDropHandle<()>>,
}

impl OpenCheck {
    /// Returns a port without servers.
    pub(super) const fn new(port: Port, page: CheckPage) -> Self {
        Self {
            port,
            page,
            servers: BTreeMap::new(),
        }
    }

    /// Takes the servers that have to be closed: those of removed addresses, and that of all
    /// addresses if none is left.
    pub(super) fn take_servers(
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
    pub(super) fn open_missing(
        &mut self,
        addresses: &watch::Sender<BTreeSet<IpAddr>>,
        sockets: &Arc<Semaphore>,
        limit: &ConnectionLimit,
    ) -> Result<(), CheckListenError> {
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
            match self.listen(all, addresses, sockets, limit) {
                // The program in the way may use an address that is not wanted.
                Err(CheckListenError::Listen(_)) => {}
                result => return result,
            }
        }
        let mut result = Ok(());
        for ip in wanted {
            if !self.servers.contains_key(&ip) {
                result = result.and(self.listen(ip, addresses, sockets, limit));
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
        sockets: &Arc<Semaphore>,
        limit: &ConnectionLimit,
    ) -> Result<(), CheckListenError> {
        let permit = Arc::clone(sockets).try_acquire_owned();
        let permit = permit.map_err(|_| CheckListenError::NoSocketLeft)?;
        let listener = listen_in_family(SocketAddr::new(ip, self.port.get()))?;
        let (page, limit, addresses) = (self.page.clone(), limit.clone(), addresses.subscribe());
        let answers_on = move |local: IpAddr| {
            let addresses = addresses.borrow();
            addresses.contains(&local) || addresses.iter().any(IpAddr::is_unspecified)
        };
        // The server ends when its handle is dropped.
        let never = CancellationToken::new();
        let server = serve_within(
            limit,
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
pub(super) struct ListenRetry {
    wait: Duration,
    /// Time of the next attempt.
    pub due: Instant,
}

impl ListenRetry {
    /// Returns the state after the first failure.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            wait: FIRST_RETRY,
            due: now + FIRST_RETRY,
        }
    }

    /// Notes another failure. An attempt before it was due does not make the delay longer.
    pub(super) fn failed(&mut self, now: Instant) {
        if now >= self.due {
            self.wait = (self.wait * 2).min(LONGEST_RETRY);
            self.due = now + self.wait;
        }
    }
}

#[cfg(test)]
#[path = "tests/check_listen.rs"]
mod tests;
