//! What nftables holds, asked for by name: the table that kube-proxy's mode nftables leaves behind,
//! which goes on sending packets to Pods that are gone, and single chains of other tables.
//!
//! Apart, and over netlink, because programs read all there is before they answer: beside 10,000
//! Services `nft list tables` takes more than 5 s, `iptables-nft -t mangle -S` 0.5 s.
//!
//! # Source
//!
//! Upstream: pkg/proxy/nftables/proxier.go, `CleanupLeftovers` (v1.36)
//! Linux: include/uapi/linux/netfilter/nf_tables.h

use nix::errno::Errno;

use super::Changed;
use super::netlink::{
    self, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, batch, message, messages, number, status, text,
};
use crate::net::IpFamily;

/// The name of both tables of mode nftables.
const TABLE: &str = "kube-proxy";

/// The subsystem is the upper byte of the message type.
pub(super) const NFNL_SUBSYS_NFTABLES: u16 = 10 << 8;
const NFT_MSG_GETTABLE: u16 = 1;
pub(super) const NFT_MSG_DELTABLE: u16 = 2;
const NFT_MSG_GETCHAIN: u16 = 4;

pub(super) const NFTA_TABLE_NAME: u16 = 1;
pub(super) const NFTA_CHAIN_TABLE: u16 = 1;
pub(super) const NFTA_CHAIN_NAME: u16 = 3;

/// The kernel does not say what it holds, or does not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("nftables: {}", .0.desc())]
pub struct NftError(Errno);

/// Whether the table of mode nftables is there for a family.
pub fn has_nft_table(family: IpFamily) -> Result<bool, NftError> {
    let names = [(NFTA_TABLE_NAME, TABLE)];
    let request = request(NFT_MSG_GETTABLE, NLM_F_REQUEST, family, &names);
    match netlink::ask(&request, answer).flatten() {
        Ok(()) => Ok(true),
        // The last ones are a kernel's that has no nftables.
        Err(Errno::ENOENT | Errno::EINVAL | Errno::EPROTONOSUPPORT) => Ok(false),
        Err(cause) => Err(NftError(cause)),
    }
}

/// Deletes the table of a family, if it [is there](has_nft_table).
pub fn remove_nft_table(family: IpFamily) -> Result<Changed, NftError> {
    if !has_nft_table(family)? {
        return Ok(Changed::No);
    }
    let names = [(NFTA_TABLE_NAME, TABLE)];
    let mut bytes = Vec::new();
    batch(&mut bytes, NFNL_SUBSYS_NFTABLES, |bytes| {
        let flags = NLM_F_REQUEST | NLM_F_ACK;
        bytes.extend(request(NFT_MSG_DELTABLE, flags, family, &names));
    });
    match netlink::ask(&bytes, answer).flatten() {
        Ok(()) => Ok(Changed::Yes),
        // Somebody else was faster.
        Err(Errno::ENOENT) => Ok(Changed::No),
        Err(cause) => Err(NftError(cause)),
    }
}

/// Whether a table of that name has a chain of that name. No, if the kernel does not tell us.
pub(super) fn has_nft_chain(family: IpFamily, table: &str, chain: &str) -> bool {
    let names = [(NFTA_CHAIN_TABLE, table), (NFTA_CHAIN_NAME, chain)];
    let request = request(NFT_MSG_GETCHAIN, NLM_F_REQUEST, family, &names);
    netlink::ask(&request, answer).flatten().is_ok()
}

pub(super) fn request(kind: u16, flags: u16, family: IpFamily, names: &[(u16, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let kind = NFNL_SUBSYS_NFTABLES | kind;
    message(&mut bytes, kind, flags, number(family), |bytes| {
        for (attribute, name) in names {
            text(bytes, *attribute, name);
        }
    });
    bytes
}

/// What the first message of a datagram says: a refusal, or that it is there or was done. `None`:
/// it is cut off.
fn answer(datagram: &[u8]) -> Option<Result<(), Errno>> {
    let message = messages(datagram).next()??;
    if message.kind == NLMSG_ERROR {
        status(message.body)
    } else {
        Some(Ok(()))
    }
}

#[cfg(test)]
#[path = "tests/nft_tables.rs"]
mod tests;
