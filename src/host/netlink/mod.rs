//! Netlink interfaces of the kernel: conntrack entries, nfacct counters, nftables, routes and IP
//! sets.

mod conntrack;
#[cfg(feature = "tools")]
mod ip_set;
#[cfg(feature = "tools")]
mod lookup;
pub(super) mod nfacct;
pub(super) mod nftables;
pub(super) mod socket;

pub(crate) use conntrack::FlowError;
pub use conntrack::{Conntrack, FlowTable};
#[cfg(test)]
pub(super) use conntrack::{ConntrackReply, Deletions, dump_request, replies};
#[cfg(feature = "tools")]
pub(crate) use lookup::KernelLookup;
pub(crate) use nfacct::counted_packets;
pub(crate) use nftables::{has_nft_table, remove_nft_table};
