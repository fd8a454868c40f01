//! Addresses, families and protocols: the words everything else is said in.
//!
//! The bottom layer: it knows neither Kubernetes objects nor iptables, so both sides may use it.

mod address;
mod family;
mod port;
mod protocol;

pub use address::{is_special, parse_cidr, parse_ip};
pub use family::{IpFamily, PerFamily};
pub use ipnet::IpNet;
pub use port::Port;
pub use protocol::Protocol;
