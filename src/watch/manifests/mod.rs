//! Manifests instead of an API server: a file, a directory of files, or standard input.
//!
//! Apart from the API source because here nothing was checked, completed or selected before: this
//! does what the API server would have done. Two differences remain. Node ports are not invented.
//! And cluster IPs that were not written follow from the names of their Services.
//!
//! Files should be replaced by renaming, as `kubectl` mounts and most editors do: a file that is
//! written in place may be read while it is half there.

mod cluster_ip;
mod defaults;
mod document;
mod error;
mod files;
mod follow;
mod load;
mod merge;
mod parse;
mod store;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

pub use error::ManifestError;
pub use files::exist;
pub use follow::follow;
pub use load::load;
pub use merge::Manifests;

use crate::net::{IpNet, PerFamily};

/// What reading manifests depends on.
#[derive(Debug, Clone)]
pub struct ManifestOptions {
    /// Which Node is ours.
    pub node_name: Arc<str>,
    /// Where Services without a cluster IP get one from.
    pub service_ranges: PerFamily<IpNet>,
}

impl ManifestOptions {
    /// The ranges that kubeadm uses, `10.96.0.0/12`, and its like in IPv6, `fd00:10:96::/112`.
    pub fn new(node_name: Arc<str>) -> Self {
        let v6 = Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0);
        Self {
            node_name,
            service_ranges: PerFamily {
                v4: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 0)), 12),
                v6: IpNet::new_assert(IpAddr::V6(v6), 112),
            },
        }
    }
}
