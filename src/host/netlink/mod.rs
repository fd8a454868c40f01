//! Netlink interfaces of the kernel: conntrack entries, nfacct counters, and nftables.

mod conntrack;
mod conntrack_message;
pub(super) mod nfacct;
pub(super) mod nftables;
pub(super) mod socket;

pub use conntrack::{Conntrack, FlowError, FlowTable};
#[cfg(test)]
pub(super) use conntrack_message::{ConntrackReply, Deletions, dump_request, replies};
pub use nfacct::counted_packets;
pub use nftables::{NftError, has_nft_table, remove_nft_table};
