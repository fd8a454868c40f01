//! Addresses, families, protocols and ports.
//!
//! The bottom layer: it knows neither Kubernetes objects nor iptables.

mod address;
mod family;
mod protocol;

pub use address::{is_special, parse_cidr, parse_ip};
pub use family::{IpFamily, PerFamily};
pub use ipnet::IpNet;
pub use protocol::{Port, Protocol};
