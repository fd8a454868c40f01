//! Named packet counters of the kernel, to which rules with `-m nfacct` add.
//!
//! Counters belong to both families, and outlive the rules that name them.
//!
//! # Source
//!
//! Upstream: pkg/proxy/util/nfacct (v1.37)
//! Linux: include/uapi/linux/netfilter/nfnetlink_acct.h

use nix::errno::Errno;

use super::socket::{
    self, Attributes, NFGENMSG, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, message, messages, status,
    text,
};

/// The kernel has 32 bytes for a name and its terminating zero.
const LONGEST_NAME: usize = 31;

/// The subsystem is the upper byte of the message type.
const NFNL_SUBSYS_ACCT: u16 = 7 << 8;
const NFNL_MSG_ACCT_NEW: u16 = 0;
const NFNL_MSG_ACCT_GET: u16 = 1;

const NLM_F_CREATE: u16 = 0x400;

const NFACCT_NAME: u16 = 1;
const NFACCT_PKTS: u16 = 2;

/// Returns the number of packets that a counter has counted; `None` if the counter does not exist
/// or may not be read.
pub(crate) fn counted_packets(name: &str) -> Option<u64> {
    match query(Request::Get, name) {
        Ok(CounterReply::Packets(packets)) => Some(packets),
        _ => None,
    }
}

/// Creates a counter unless it exists. An existing one, for which the kernel returns `EBUSY`, keeps
/// its count.
pub(in crate::host) fn create(name: &str) -> Result<(), Errno> {
    match query(Request::Create, name)? {
        CounterReply::Acknowledged | CounterReply::Rejected(Errno::EBUSY | Errno::EEXIST) => Ok(()),
        CounterReply::Rejected(error) => Err(error),
        CounterReply::Packets(_) => Err(Errno::EBADMSG),
    }
}

/// Reports whether a counter exists.
///
/// # Errors
///
/// The kernel does not support counters, or denies access to them.
pub(in crate::host) fn exists(name: &str) -> Result<bool, Errno> {
    match query(Request::Get, name)? {
        CounterReply::Packets(_) => Ok(true),
        CounterReply::Rejected(Errno::ENOENT) => Ok(false),
        CounterReply::Rejected(error) => Err(error),
        CounterReply::Acknowledged => Err(Errno::EBADMSG),
    }
}

fn query(request: Request, name: &str) -> Result<CounterReply, Errno> {
    socket::query(&request.encode(name)?, read_reply)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::host) enum Request {
    Get,
    Create,
}

/// Reply of the kernel about one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::host) enum CounterReply {
    /// The counter exists and has counted this many packets.
    Packets(u64),
    Acknowledged,
    Rejected(Errno),
}

impl Request {
    /// Returns the bytes of the request.
    ///
    /// # Errors
    ///
    /// `EINVAL`, as from the kernel, for a name that is empty, too long, or contains a zero byte.
    pub(in crate::host) fn encode(self, name: &str) -> Result<Vec<u8>, Errno> {
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(Errno::EINVAL);
        }
        let (kind, flags) = match self {
            Self::Get => (NFNL_MSG_ACCT_GET, NLM_F_REQUEST),
            Self::Create => (NFNL_MSG_ACCT_NEW, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE),
        };
        let mut bytes = Vec::new();
        // Counters belong to no family.
        message(&mut bytes, NFNL_SUBSYS_ACCT | kind, flags, 0, |bytes| {
            text(bytes, NFACCT_NAME, name);
        });
        Ok(bytes)
    }
}

/// Reads the first reply in a datagram; `None` if there is none, or it is truncated.
pub(in crate::host) fn read_reply(datagram: &[u8]) -> Option<CounterReply> {
    for message in messages(datagram) {
        let message = message?;
        if message.kind == NLMSG_ERROR {
            let status = status(message.body)?;
            return Some(
                status.map_or_else(CounterReply::Rejected, |()| CounterReply::Acknowledged),
            );
        }
        if message.kind == NFNL_SUBSYS_ACCT | NFNL_MSG_ACCT_NEW {
            return packets(message.body.get(NFGENMSG..)?).map(CounterReply::Packets);
        }
    }
    None
}

/// Returns the number of packets among the attributes of a counter.
fn packets(attributes: &[u8]) -> Option<u64> {
    let packets = Attributes(attributes).find(|attribute| attribute.kind == NFACCT_PKTS)?;
    packets.value.first_chunk().copied().map(u64::from_be_bytes)
}

#[cfg(test)]
#[path = "tests/nfacct.rs"]
mod tests;
