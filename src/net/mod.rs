//! Addresses, families, protocols and ports.
//!
//! The bottom layer: it knows neither Kubernetes objects nor iptables.

mod address;
mod family;
mod protocol;

pub(crate) use address::is_special;
pub use address::{parse_cidr, parse_ip};
pub use family::IpFamily;
pub(crate) use family::PerFamily;
pub use ipnet::IpNet;
pub use protocol::{Port, Protocol};
