//! Frontends that several Services ask for.
//!
//! Kept separate from [`read`](super::read) because no rule shows them: the Service that comes
//! first has the rules, and what others ask for is known from the objects alone.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::entrance::Kind;
use super::port::PortName;

/// A frontend that a service port asks for and another Service has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontendConflict {
    /// The service port without rules for it.
    pub loser: PortName,
    /// Field of the Service that asks for it.
    pub kind: Kind,
    /// The address; `None` for ports of the node.
    pub ip: Option<IpAddr>,
    /// The destination port.
    pub port: u16,
    /// `namespace/name` of the Service that has it.
    pub owner: Box<str>,
}

impl fmt::Display for FrontendConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = &self.loser.protocol;
        match self.ip {
            Some(ip) => write!(f, "{}/{protocol}", SocketAddr::new(ip, self.port)),
            None => write!(f, "*:{}/{protocol}", self.port),
        }
    }
}
