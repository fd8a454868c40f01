//! Manifests instead of an API server: a file, a directory of files, or standard input.
//!
//! Objects of manifests are not validated, defaulted or selected yet: this module does what the
//! API server would have done. Two differences remain. Node ports are not allocated. And cluster
//! IPs that are not set follow from the names of their Services.
//!
//! The daemon skips what it cannot use. Commands report it and what an API server rejects.
//!
//! Files should be replaced by renaming, as the kubelet does in mounted volumes and most editors
//! do: a file that is written in place may be read while it is incomplete.

mod defaults;
mod document;
mod document_kind;
mod files;
mod follow;
mod load;
mod locate;
mod merge;
mod notes;
mod parse;
mod store;
mod text;
mod validation;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

pub use files::{ManifestError, exist};
pub use follow::follow;
pub use load::{ManifestErrors, load};
pub use merge::Manifests;

use crate::net::{IpNet, PerFamily};

/// Treatment of objects that an API server would reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// They are errors, and left out.
    Strict,
    /// As much of them as possible is used.
    Lenient,
}

/// Settings for reading manifests.
#[derive(Debug, Clone)]
pub struct ManifestOptions {
    /// Name of the Node of this host.
    pub node_name: Arc<str>,
    /// Ranges from which Services without a cluster IP get one.
    pub service_ranges: PerFamily<IpNet>,
}

impl ManifestOptions {
    /// Returns settings with the range of kubeadm, `10.96.0.0/12`, and `fd00:10:96::/112` for
    /// IPv6.
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
