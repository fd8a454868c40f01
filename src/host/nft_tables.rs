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
    NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, attribute, batch, message, messages, receive, send,
    status, with_socket,
};
use crate::net::IpFamily;

/// The name of both tables of mode nftables.
const TABLE: &str = "kube-proxy";

/// The subsystem is the upper byte of the message type.
const NFNL_SUBSYS_NFTABLES: u16 = 10 << 8;
const NFT_MSG_GETTABLE: u16 = 1;
const NFT_MSG_DELTABLE: u16 = 2;
const NFT_MSG_GETCHAIN: u16 = 4;

const NFTA_TABLE_NAME: u16 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;

/// Room for any answer: a table or a chain takes some 100 bytes, a refusal repeats the request.
const ANSWER_BYTES: usize = 1024;

/// The kernel does not say what it holds, or does not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("nftables: {}", .0.desc())]
pub struct NftError(Errno);

/// Whether the table of mode nftables is there for a family.
pub fn has_nft_table(family: IpFamily) -> Result<bool, NftError> {
    is_there(&table(NFT_MSG_GETTABLE, NLM_F_REQUEST, family, TABLE)).map_err(NftError)
}

/// Deletes the table of a family, if it [is there](has_nft_table).
pub fn remove_nft_table(family: IpFamily) -> Result<Changed, NftError> {
    if !has_nft_table(family)? {
        return Ok(Changed::No);
    }
    let mut request = Vec::new();
    batch(&mut request, NFNL_SUBSYS_NFTABLES, |bytes| {
        bytes.extend(table(
            NFT_MSG_DELTABLE,
            NLM_F_REQUEST | NLM_F_ACK,
            family,
            TABLE,
        ));
    });
    match is_there(&request) {
        Ok(true) => Ok(Changed::Yes),
        // Somebody else was faster.
        Ok(false) => Ok(Changed::No),
        Err(cause) => Err(NftError(cause)),
    }
}

/// Whether a table of that name has a chain of that name. No, if the kernel does not tell us.
pub(super) fn has_nft_chain(family: IpFamily, table: &str, chain: &str) -> bool {
    let mut request = Vec::new();
    let kind = NFNL_SUBSYS_NFTABLES | NFT_MSG_GETCHAIN;
    message(&mut request, kind, NLM_F_REQUEST, number(family), |bytes| {
        name(bytes, NFTA_CHAIN_TABLE, table);
        name(bytes, NFTA_CHAIN_NAME, chain);
    });
    is_there(&request).unwrap_or_default()
}

fn table(kind: u16, flags: u16, family: IpFamily, table: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let kind = NFNL_SUBSYS_NFTABLES | kind;
    message(&mut bytes, kind, flags, number(family), |bytes| {
        name(bytes, NFTA_TABLE_NAME, table);
    });
    bytes
}

fn name(bytes: &mut Vec<u8>, kind: u16, text: &str) {
    attribute(bytes, kind, &[text.as_bytes(), b"\0"].concat());
}

/// What nftables calls a family.
///
/// Linux: include/uapi/linux/netfilter.h, `NFPROTO_IPV4`, `NFPROTO_IPV6`
const fn number(family: IpFamily) -> u8 {
    match family {
        IpFamily::V4 => 2,
        IpFamily::V6 => 10,
    }
}

/// Whether there is something to do the request with.
fn is_there(request: &[u8]) -> Result<bool, Errno> {
    let answered = with_socket(|socket| {
        send(socket, request)?;
        let mut datagram = [0; ANSWER_BYTES];
        answer(receive(socket, &mut datagram)?).unwrap_or(Err(Errno::EBADMSG))
    });
    match answered {
        Ok(()) => Ok(true),
        // The last ones are a kernel's that has no nftables.
        Err(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT) => {
            Ok(false)
        }
        Err(cause) => Err(cause),
    }
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
