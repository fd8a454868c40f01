//! Queries of nftables over netlink: single tables, chains and jumps, and its notifications.
//!
//! Programs read the whole ruleset before they print anything: with 10,000 Services `nft list
//! tables` takes more than 5 s, `iptables-nft -t mangle -S` 0.5 s. And they stop at the first rule
//! that they cannot parse: `iptables -C` finds no rule after a third-party rule that only `nft`
//! knows. The kernel returns exactly what is requested.
//!
//! # Source
//!
//! Upstream: pkg/proxy/nftables/cleanup.go, `CleanupLeftovers` (v1.37)
//! Linux: include/uapi/linux/netfilter/nf_tables.h
//! Linux: net/netfilter/nf_tables_api.c, `nft_commit_notify`, `nf_tables_gen_notify`: the objects
//! of a transaction come first, then one message with the new generation. All of them carry the
//! port of the socket that sent the transaction.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::super::sysctl::Changed;
use super::socket::{
    self, Attribute, Attributes, NFGENMSG, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
    NLMSG_DONE, NLMSG_ERROR, Received, batch, family_number, message, messages, receive, send,
    status, text, with_socket,
};
use crate::net::IpFamily;
use crate::rules::Table;

/// Table of kube-proxy's nftables mode, one per family.
const KUBE_PROXY_TABLE: &str = "kube-proxy";

/// The subsystem is the upper byte of the message type.
const NFNL_SUBSYS_NFTABLES: u16 = 10 << 8;
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_GETTABLE: u16 = 1;
const NFT_MSG_DELTABLE: u16 = 2;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_GETCHAIN: u16 = 4;
const NFT_MSG_DELCHAIN: u16 = 5;
const NFT_MSG_NEWRULE: u16 = 6;
const NFT_MSG_GETRULE: u16 = 7;
const NFT_MSG_DELRULE: u16 = 8;
const NFT_MSG_NEWGEN: u16 = 15;
const NFT_MSG_GETGEN: u16 = 16;

const NFTA_TABLE_NAME: u16 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_GEN_ID: u16 = 1;
const NFTA_GEN_PROC_PID: u16 = 2;
const NFTA_GEN_PROC_NAME: u16 = 3;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CHAIN: u16 = 2;

/// The kernel fills at most 32 KiB of a dump at once.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Maximum dumps if a transaction interrupts each.
const MOST_DUMPS: usize = 5;

/// A request that the kernel rejected or could not execute.
#[derive(Debug, thiserror::Error)]
#[error("nftables request failed: {}", .0.desc())]
pub(crate) struct NftError(Errno);

/// Reports whether the table of kube-proxy's nftables mode exists. A leftover table keeps sending
/// packets to Pods that were deleted.
pub(crate) fn has_nft_table(family: IpFamily) -> Result<bool, NftError> {
    let names = [(NFTA_TABLE_NAME, KUBE_PROXY_TABLE)];
    let request = request(NFT_MSG_GETTABLE, NLM_F_REQUEST, family, &names);
    match socket::query(&request, read_reply).flatten() {
        Ok(()) => Ok(true),
        // The last two are those of a kernel without nftables.
        Err(Errno::ENOENT | Errno::EINVAL | Errno::EPROTONOSUPPORT) => Ok(false),
        Err(cause) => Err(NftError(cause)),
    }
}

/// Deletes the table of kube-proxy's nftables mode, if it [exists](has_nft_table).
pub(crate) fn remove_nft_table(family: IpFamily) -> Result<Changed, NftError> {
    if !has_nft_table(family)? {
        return Ok(Changed::No);
    }
    let names = [(NFTA_TABLE_NAME, KUBE_PROXY_TABLE)];
    let mut bytes = Vec::new();
    batch(&mut bytes, NFNL_SUBSYS_NFTABLES, |bytes| {
        let flags = NLM_F_REQUEST | NLM_F_ACK;
        bytes.extend(request(NFT_MSG_DELTABLE, flags, family, &names));
    });
    match socket::query(&bytes, read_reply).flatten() {
        Ok(()) => Ok(Changed::Yes),
        // Another program deleted the table meanwhile.
        Err(Errno::ENOENT) => Ok(Changed::No),
        Err(cause) => Err(NftError(cause)),
    }
}

/// Reports whether a chain exists; false if the kernel does not answer.
pub(in crate::host) fn has_nft_chain(family: IpFamily, table: &str, chain: &str) -> bool {
    let names = [(NFTA_CHAIN_TABLE, table), (NFTA_CHAIN_NAME, chain)];
    let request = request(NFT_MSG_GETCHAIN, NLM_F_REQUEST, family, &names);
    socket::query(&request, read_reply).flatten().is_ok()
}

/// Reports whether a rule of chain `from` jumps to chain `to`, whatever the rule matches.
pub(in crate::host) fn has_nft_jump(
    family: IpFamily,
    table: &str,
    from: &str,
    to: &str,
) -> Result<bool, Errno> {
    let names = [(NFTA_RULE_TABLE, table), (NFTA_RULE_CHAIN, from)];
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = request(NFT_MSG_GETRULE, flags, family, &names);
    until_complete(|| with_socket(|socket| find_jump(socket, &request, to)))
}

/// Repeats a dump that transactions interrupt: each may leave out rules. The other family of this
/// process commits some as well.
fn until_complete<T>(mut dump: impl FnMut() -> Result<ControlFlow<T>, Errno>) -> Result<T, Errno> {
    for _ in 0..MOST_DUMPS {
        if let ControlFlow::Break(found) = dump()? {
            return Ok(found);
        }
    }
    Err(Errno::EINTR)
}

/// Looks for a jump in one dump of rules, which it reads to the end;
/// [`Continue`](ControlFlow::Continue) if the rules changed meanwhile.
fn find_jump(socket: &OwnedFd, request: &[u8], to: &str) -> Result<ControlFlow<bool>, Errno> {
    send(socket, request)?;
    let mut datagram = vec![0; DATAGRAM_BYTES];
    let (mut found, mut is_interrupted) = (false, false);
    loop {
        for message in messages(receive(socket, &mut datagram)?) {
            let message = message.ok_or(Errno::EBADMSG)?;
            is_interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
            match message.kind {
                NLMSG_DONE if is_interrupted => return Ok(ControlFlow::Continue(())),
                NLMSG_DONE => return Ok(ControlFlow::Break(found)),
                NLMSG_ERROR => status(message.body).ok_or(Errno::EBADMSG)??,
                _ => found |= jumps_to(&message, to),
            }
        }
    }
}

/// Returns the number of transactions that the kernel has committed, modulo 2^32.
pub fn generation() -> Result<u32, Errno> {
    let mut request = Vec::new();
    let kind = NFNL_SUBSYS_NFTABLES | NFT_MSG_GETGEN;
    message(&mut request, kind, NLM_F_REQUEST, 0, |_| {});
    socket::query(&request, |datagram| {
        generation_of(&messages(datagram).next()??)
    })
}

/// One message of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::host) struct NftEvent<'a> {
    /// Port of the socket that sent the transaction, usually the process id of the program.
    pub(in crate::host) port: u32,
    pub(in crate::host) kind: NftEventKind<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::host) enum NftEventKind<'a> {
    /// A chain was added, or one of its rules was added or deleted.
    Chain(Table, &'a str),
    DeletedChain(Table, &'a str),
    /// A whole table was added or deleted.
    Table(Table),
    /// The transaction is complete.
    Generation {
        program: &'a str,
        /// Process id in the initial pid namespace; `None` if the kernel does not report it.
        process: Option<u32>,
    },
}

/// Returns the events of a datagram that concern the tables of iptables in one family.
pub(in crate::host) fn events(
    family: IpFamily,
    datagram: &[u8],
) -> impl Iterator<Item = NftEvent<'_>> {
    messages(datagram)
        .flatten()
        .filter_map(move |message| event(family, &message))
}

fn event<'a>(family: IpFamily, message: &Received<'a>) -> Option<NftEvent<'a>> {
    let kind = message.kind.checked_sub(NFNL_SUBSYS_NFTABLES)?;
    let is_of_family = message.body.first() == Some(&family_number(family));
    let text = |attribute| text_of(message, attribute);
    let table = |attribute| Table::from_name(text(attribute)?);
    let kind = match kind {
        NFT_MSG_NEWRULE | NFT_MSG_DELRULE if is_of_family => {
            NftEventKind::Chain(table(NFTA_RULE_TABLE)?, text(NFTA_RULE_CHAIN)?)
        }
        NFT_MSG_NEWCHAIN if is_of_family => {
            NftEventKind::Chain(table(NFTA_CHAIN_TABLE)?, text(NFTA_CHAIN_NAME)?)
        }
        NFT_MSG_DELCHAIN if is_of_family => {
            NftEventKind::DeletedChain(table(NFTA_CHAIN_TABLE)?, text(NFTA_CHAIN_NAME)?)
        }
        NFT_MSG_NEWTABLE | NFT_MSG_DELTABLE if is_of_family => {
            NftEventKind::Table(table(NFTA_TABLE_NAME)?)
        }
        NFT_MSG_NEWGEN => NftEventKind::Generation {
            program: text(NFTA_GEN_PROC_NAME).unwrap_or_default(),
            process: value_of(message, NFTA_GEN_PROC_PID)
                .and_then(|value| Some(u32::from_be_bytes(*value.first_chunk()?))),
        },
        _ => return None,
    };
    let port = message.port;
    Some(NftEvent { port, kind })
}

fn request(kind: u16, flags: u16, family: IpFamily, names: &[(u16, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let kind = NFNL_SUBSYS_NFTABLES | kind;
    message(&mut bytes, kind, flags, family_number(family), |bytes| {
        for (attribute, name) in names {
            text(bytes, *attribute, name);
        }
    });
    bytes
}

/// Reads the first message of a datagram: an error, or the object or acknowledgment that was
/// requested. `None` if the message is truncated.
fn read_reply(datagram: &[u8]) -> Option<Result<(), Errno>> {
    let message = messages(datagram).next()??;
    if message.kind == NLMSG_ERROR {
        status(message.body)
    } else {
        Some(Ok(()))
    }
}

/// Reports whether the rule in a message jumps to a chain.
fn jumps_to(message: &Received<'_>, to: &str) -> bool {
    let attributes = message.body.get(NFGENMSG..).unwrap_or_default();
    values(attributes, NFTA_RULE_EXPRESSIONS)
        .flat_map(|list| values(list, NFTA_LIST_ELEM))
        .filter(|expression| values(expression, NFTA_EXPR_NAME).any(|name| name == b"immediate\0"))
        .flat_map(|expression| values(expression, NFTA_EXPR_DATA))
        .flat_map(|data| values(data, NFTA_IMMEDIATE_DATA))
        .flat_map(|value| values(value, NFTA_DATA_VERDICT))
        .flat_map(|verdict| values(verdict, NFTA_VERDICT_CHAIN))
        .any(|chain| chain.strip_suffix(b"\0") == Some(to.as_bytes()))
}

/// Returns the values of all attributes of one kind.
fn values(bytes: &[u8], kind: u16) -> impl Iterator<Item = &[u8]> {
    let is_of_kind = move |attribute: &Attribute<'_>| attribute.kind == kind;
    Attributes(bytes)
        .filter(is_of_kind)
        .map(|found| found.value)
}

fn generation_of(message: &Received<'_>) -> Option<u32> {
    let value = value_of(message, NFTA_GEN_ID)?;
    Some(u32::from_be_bytes(*value.first_chunk()?))
}

fn text_of<'a>(message: &Received<'a>, kind: u16) -> Option<&'a str> {
    let value = value_of(message, kind)?;
    str::from_utf8(value.strip_suffix(b"\0").unwrap_or(value)).ok()
}

fn value_of<'a>(message: &Received<'a>, kind: u16) -> Option<&'a [u8]> {
    values(message.body.get(NFGENMSG..)?, kind).next()
}

#[cfg(test)]
#[path = "tests/nftables.rs"]
mod tests;
