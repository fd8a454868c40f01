//! Netlink interfaces of the kernel: conntrack entries, nfacct counters, and nftables.

mod conntrack;
mod conntrack_message;
pub(super) mod nfacct;
pub(super) mod nftables;
pub(super) mod socket;

pub(crate) use conntrack::FlowError;
pub use conntrack::{Conntrack, FlowTable};
#[cfg(test)]
pub(super) use conntrack_message::{ConntrackReply, Deletions, dump_request, replies};
pub(crate) use nfacct::counted_packets;
pub(crate) use nftables::{has_nft_table, remove_nft_table};
