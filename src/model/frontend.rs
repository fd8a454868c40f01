//! Frontends: addresses and ports under which clients reach Services.
//!
//! Several Services may ask for the same frontend; [`tracker`](crate::tracker) decides which of
//! them has it.

use std::fmt;
use std::net::IpAddr;

use super::name::ServiceName;
use super::object::{Service, ServicePort};
use crate::net::{Port, Protocol};

/// Destination that belongs to one service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Frontend {
    /// Port of a cluster IP, a load balancer address or an external IP.
    Address(IpAddr, Port, Protocol),
    /// Port of the addresses of the node.
    NodePort(Port, Protocol),
    /// Health check node port, which a load balancer probes.
    HealthCheck(Port),
}

/// Frontend that a port of a Service asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortFrontend {
    /// Position of the port among those of its Service; 0 for [`Frontend::HealthCheck`], which is
    /// the whole Service's.
    pub port_index: u16,
    /// Destination.
    pub frontend: Frontend,
}

/// Rank of a claim to a frontend; the lowest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrontendRank {
    /// Allocated by the cluster: a cluster IP, a NodePort, a health check node port.
    Allocated,
    /// Address in `status.loadBalancer`, which a controller writes.
    LoadBalancer,
    /// Address in `spec.externalIPs`, which the author of the Service writes.
    External,
    /// Frontend that the Service no longer asks for, and has until the change is applied.
    Former,
}

/// Frontend that a service port asks for and another Service has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostFrontend {
    /// Service that asks for it and has no rules for it.
    pub service: ServiceName,
    /// Name of its port; empty without one.
    pub port: Box<str>,
    /// Destination.
    pub frontend: Frontend,
    /// Rank of the claim that was lost.
    pub rank: FrontendRank,
    /// Service that has the frontend.
    pub owner: ServiceName,
}

impl LostFrontend {
    /// Returns the kind of frontend in the documents of `deltaproxy services`.
    pub const fn kind(&self) -> &'static str {
        match (self.frontend, self.rank) {
            (Frontend::NodePort(..), _) => "NodePort",
            (Frontend::HealthCheck(_), _) => "HealthCheck",
            (Frontend::Address(..), FrontendRank::Allocated) => "ClusterIP",
            (Frontend::Address(..), FrontendRank::LoadBalancer) => "LoadBalancer",
            (Frontend::Address(..), FrontendRank::External) => "ExternalIP",
            (Frontend::Address(..), FrontendRank::Former) => "External",
        }
    }
}

/// Policy for `spec.externalIPs`, with which the author of a Service can claim any address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalIps {
    /// External IPs have rules.
    #[default]
    Served,
    /// External IPs have no rules. A port that only they make reachable still has its external
    /// chain, without a jump to it, as upstream.
    Ignored,
}

impl Frontend {
    /// Returns the address; `None` for ports of the node.
    pub const fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Address(ip, ..) => Some(ip),
            Self::NodePort(..) | Self::HealthCheck(_) => None,
        }
    }

    /// Returns the port.
    pub const fn port(self) -> Port {
        match self {
            Self::Address(_, port, _) | Self::NodePort(port, _) | Self::HealthCheck(port) => port,
        }
    }

    /// Returns the protocol.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Address(.., protocol) | Self::NodePort(_, protocol) => protocol,
            Self::HealthCheck(_) => Protocol::Tcp,
        }
    }
}

impl Service {
    /// Returns every frontend that the Service asks for, sorted, each once for a port with its
    /// lowest rank.
    pub fn frontends(&self, external_ips: ExternalIps) -> Vec<(PortFrontend, FrontendRank)> {
        let mut all = Vec::new();
        for (port_index, port) in (0..=u16::MAX).zip(&self.ports) {
            let of_port = self.frontends_of(port, external_ips);
            all.extend(of_port.map(|(frontend, rank)| {
                let of_port = PortFrontend {
                    port_index,
                    frontend,
                };
                (of_port, rank)
            }));
        }
        if let Some(number) = self
            .health_check_node_port
            .filter(|_| !self.ports.is_empty())
        {
            let frontend = Frontend::HealthCheck(number);
            all.push((
                PortFrontend {
                    port_index: 0,
                    frontend,
                },
                FrontendRank::Allocated,
            ));
        }
        all.sort_unstable();
        all.dedup_by_key(|(frontend, _)| *frontend);
        all
    }

    fn frontends_of(
        &self,
        port: &ServicePort,
        external_ips: ExternalIps,
    ) -> impl Iterator<Item = (Frontend, FrontendRank)> {
        let external: &[IpAddr] = match external_ips {
            ExternalIps::Served => &self.external_ips,
            ExternalIps::Ignored => &[],
        };
        let (number, protocol) = (port.port, port.protocol);
        let addresses = [
            (
                std::slice::from_ref(&self.cluster_ip),
                FrontendRank::Allocated,
            ),
            (&self.load_balancer_ips, FrontendRank::LoadBalancer),
            (external, FrontendRank::External),
        ];
        let addresses = addresses.into_iter().flat_map(move |(ips, rank)| {
            ips.iter()
                .map(move |ip| (Frontend::Address(*ip, number, protocol), rank))
        });
        let node_port = port.node_port.map(|number| {
            let frontend = Frontend::NodePort(number, protocol);
            (frontend, FrontendRank::Allocated)
        });
        addresses.chain(node_port)
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip, port, protocol) => {
                let address = std::net::SocketAddr::new(*ip, port.get());
                write!(f, "{address}/{protocol}")
            }
            Self::NodePort(port, protocol) => write!(f, "NodePort {}/{protocol}", port.get()),
            Self::HealthCheck(port) => write!(f, "health check node port {}", port.get()),
        }
    }
}
