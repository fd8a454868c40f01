//! Flows, and where clients send them.
//!
//! Apart because it is all that the decision and the kernel's table have to share.

use std::net::SocketAddr;

use crate::net::Port;

/// One UDP flow, as far as rules have decided about it. Any value is legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Where the client sends: the original tuple's destination.
    pub destination: SocketAddr,
    /// Who answers: the reply tuple's source. The same, if nothing was translated.
    pub answerer: SocketAddr,
}

/// Where clients of a service port send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// A cluster IP, an external one or a load balancer's, with the port on it.
    Address(SocketAddr),
    /// This port, on the addresses of this machine that NodePorts answer on.
    NodePort(Port),
}

/// What the kernel is asked for, always UDP only: a superset of what is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// All flows of the family.
    Everything,
    /// Those that are sent to this address and port.
    To(SocketAddr),
    /// Those that are sent to this port of anybody.
    ToPort(Port),
}
