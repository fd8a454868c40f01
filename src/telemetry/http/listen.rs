//! Opens listening sockets the way Go programs do.
//!
//! Manifests and load balancers rely on two habits of kube-proxy: the IPv4 wildcard also listens
//! on IPv6, as Go does by default, and a port in use is retried.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

/// Retry delay of a port in use, as upstream has it.
const RETRY: Duration = Duration::from_secs(5);

/// Maximum connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 1024;

/// Failure to listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}`")]
pub(crate) struct ListenError {
    /// Address as configured.
    pub address: SocketAddr,
    /// Error of the kernel.
    pub source: io::Error,
}

/// Listens on an address. `0.0.0.0` stands for all addresses of both families if the node has
/// both.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let wildcard_v4 = matches!(address.ip(), IpAddr::V4(ip) if ip.is_unspecified());
    let opened = if wildcard_v4 {
        let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
        open(both, Wildcard::BothFamilies).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Err(error),
            // Any other error: a node without IPv6.
            _ => open(address, Wildcard::BothFamilies),
        })
    } else {
        open(address, Wildcard::BothFamilies)
    };
    opened.map_err(|source| ListenError { address, source })
}

/// Listens on an address of one family; a wildcard stands for that family only.
pub(crate) fn listen_in_family(address: SocketAddr) -> Result<TcpListener, ListenError> {
    open(address, Wildcard::OneFamily).map_err(|source| ListenError { address, source })
}

/// Addresses that `::` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    /// All addresses of the node.
    BothFamilies,
    /// All IPv6 addresses.
    OneFamily,
}

/// Listens on an address, and retries as long as that fails. `name` stands for the server in the
/// log, `flag` sets the address. Returns `None` if stopped before it succeeded.
pub(crate) async fn listen_retrying(
    address: SocketAddr,
    name: &str,
    flag: &str,
    stop: &CancellationToken,
) -> Option<TcpListener> {
    let mut has_failed = false;
    loop {
        match listen(address) {
            Ok(listener) => {
                if has_failed {
                    tracing::info!(%address, "serving {name} now");
                }
                return Some(listener);
            }
            Err(ListenError { source, .. }) => {
                has_failed = true;
                tracing::error!(
                    %address, flag, error = %source,
                    "cannot serve {name}; retrying in {RETRY:?}, rules are synced meanwhile"
                );
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = stop.cancelled() => return None,
        }
    }
}

fn open(address: SocketAddr, wildcard: Wildcard) -> io::Result<TcpListener> {
    let socket = match address.ip() {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(ip) => {
            let socket = TcpSocket::new_v6()?;
            let is_v6_only = wildcard == Wildcard::OneFamily || !ip.is_unspecified();
            setsockopt(&socket, sockopt::Ipv6V6Only, &is_v6_only)?;
            socket
        }
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
#[path = "tests/listen.rs"]
mod tests;
