//! Notifications of nftables: which chains each transaction touched, and the program behind it.
//!
//! Kept separate from [`nft_watch`](super::nft_watch), which owns the socket, because this is a
//! function of the bytes received.
//!
//! # Source
//!
//! Linux: net/netfilter/nf_tables_api.c, `nft_commit_notify`, `nf_tables_gen_notify`: the objects
//! of a transaction come first, then one message with the new generation. All of them carry the
//! port of the socket that sent the transaction.

use super::netlink::{Attributes, NFGENMSG, Received, messages, number};
use super::nft_jumps::{NFTA_RULE_CHAIN, NFTA_RULE_TABLE};
use super::nft_tables::{
    NFNL_SUBSYS_NFTABLES, NFT_MSG_DELTABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE, NFTA_TABLE_NAME,
};
use crate::net::IpFamily;
use crate::rules::Table;

const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_DELCHAIN: u16 = 5;
const NFT_MSG_NEWRULE: u16 = 6;
const NFT_MSG_DELRULE: u16 = 8;
const NFT_MSG_NEWGEN: u16 = 15;

const NFTA_GEN_ID: u16 = 1;
const NFTA_GEN_PROC_NAME: u16 = 3;

/// One message of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NftEvent<'a> {
    /// Port of the socket that sent the transaction: mostly the process id of the program.
    pub(super) port: u32,
    pub(super) kind: NftEventKind<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NftEventKind<'a> {
    /// A chain was added or deleted, or one of its rules was.
    Chain(Table, &'a str),
    /// A whole table was added or deleted.
    Table(Table),
    /// The transaction is complete.
    Generation { program: &'a str },
}

/// Returns the events of a datagram that concern the tables of iptables in one family.
pub(super) fn events(family: IpFamily, datagram: &[u8]) -> impl Iterator<Item = NftEvent<'_>> {
    messages(datagram)
        .flatten()
        .filter_map(move |message| event(family, &message))
}

fn event<'a>(family: IpFamily, message: &Received<'a>) -> Option<NftEvent<'a>> {
    let kind = message.kind.checked_sub(NFNL_SUBSYS_NFTABLES)?;
    let of_family = message.body.first() == Some(&number(family));
    let text = |wanted| text_of(message, wanted);
    let table = |wanted| Table::from_name(text(wanted)?);
    let kind = match kind {
        NFT_MSG_NEWRULE | NFT_MSG_DELRULE if of_family => {
            NftEventKind::Chain(table(NFTA_RULE_TABLE)?, text(NFTA_RULE_CHAIN)?)
        }
        NFT_MSG_NEWCHAIN | NFT_MSG_DELCHAIN if of_family => {
            NftEventKind::Chain(table(NFTA_CHAIN_TABLE)?, text(NFTA_CHAIN_NAME)?)
        }
        NFT_MSG_NEWTABLE | NFT_MSG_DELTABLE if of_family => {
            NftEventKind::Table(table(NFTA_TABLE_NAME)?)
        }
        NFT_MSG_NEWGEN => NftEventKind::Generation {
            program: text(NFTA_GEN_PROC_NAME).unwrap_or_default(),
        },
        _ => return None,
    };
    let port = message.port;
    Some(NftEvent { port, kind })
}

/// Returns the number of the generation in the answer to a request for it.
pub(super) fn generation_of(message: &Received<'_>) -> Option<u32> {
    let value = value_of(message, NFTA_GEN_ID)?;
    Some(u32::from_be_bytes(*value.first_chunk()?))
}

fn text_of<'a>(message: &Received<'a>, wanted: u16) -> Option<&'a str> {
    let value = value_of(message, wanted)?;
    str::from_utf8(value.strip_suffix(b"\0").unwrap_or(value)).ok()
}

fn value_of<'a>(message: &Received<'a>, wanted: u16) -> Option<&'a [u8]> {
    let mut attributes = Attributes(message.body.get(NFGENMSG..)?);
    attributes.find_map(|attribute| (attribute.kind == wanted).then_some(attribute.value))
}

#[cfg(test)]
#[path = "tests/nft_events.rs"]
mod tests;
