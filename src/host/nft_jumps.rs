//! Reports whether a chain of nftables has a jump to another chain.
//!
//! Kept separate from the programs because these read rules from the top and end at the first one
//! that they cannot parse: behind a third-party rule that only `nft` knows, `iptables -C` finds
//! nothing. The kernel itself prints all of them.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netfilter/nf_tables.h

use nix::errno::Errno;

use super::netlink::{
    Attribute, Attributes, NFGENMSG, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE,
    NLMSG_ERROR, Received, messages, receive, send, status, with_socket,
};
use super::nft_tables::request;
use crate::net::IpFamily;

const NFT_MSG_GETRULE: u16 = 7;

pub(super) const NFTA_RULE_TABLE: u16 = 1;
pub(super) const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CHAIN: u16 = 2;

/// The kernel fills at most 32 KiB at once.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Reports whether a rule of chain `from` jumps to chain `to`, whatever it matches.
pub(super) fn has_nft_jump(
    family: IpFamily,
    table: &str,
    from: &str,
    to: &str,
) -> Result<bool, Errno> {
    let names = [(NFTA_RULE_TABLE, table), (NFTA_RULE_CHAIN, from)];
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = request(NFT_MSG_GETRULE, flags, family, &names);
    with_socket(|socket| {
        send(socket, &request)?;
        let mut datagram = vec![0; DATAGRAM_BYTES];
        let mut found = false;
        loop {
            for message in messages(receive(socket, &mut datagram)?) {
                let message = message.ok_or(Errno::EBADMSG)?;
                // The rules changed meanwhile, and some may have been left out.
                if message.flags & NLM_F_DUMP_INTR != 0 {
                    return Err(Errno::EINTR);
                }
                match message.kind {
                    NLMSG_DONE => return Ok(found),
                    NLMSG_ERROR => status(message.body).ok_or(Errno::EBADMSG)??,
                    _ => found |= jumps_to(&message, to),
                }
            }
        }
    })
}

/// Reports whether the rule in a message jumps to that chain.
fn jumps_to(message: &Received<'_>, to: &str) -> bool {
    let attributes = message.body.get(NFGENMSG..).unwrap_or_default();
    inner(attributes, NFTA_RULE_EXPRESSIONS)
        .flat_map(|list| inner(list, NFTA_LIST_ELEM))
        .filter(|expression| inner(expression, NFTA_EXPR_NAME).any(|name| name == b"immediate\0"))
        .flat_map(|expression| inner(expression, NFTA_EXPR_DATA))
        .flat_map(|data| inner(data, NFTA_IMMEDIATE_DATA))
        .flat_map(|value| inner(value, NFTA_DATA_VERDICT))
        .flat_map(|verdict| inner(verdict, NFTA_VERDICT_CHAIN))
        .any(|chain| chain.strip_suffix(b"\0") == Some(to.as_bytes()))
}

/// The values of the attributes of one kind.
fn inner(bytes: &[u8], kind: u16) -> impl Iterator<Item = &[u8]> {
    let of_kind = move |attribute: &Attribute<'_>| attribute.kind == kind;
    Attributes(bytes).filter(of_kind).map(|found| found.value)
}

#[cfg(test)]
#[path = "tests/nft_jumps.rs"]
mod tests;
