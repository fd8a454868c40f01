//! Netlink sockets, mostly of netfilter, and the format that messages of all its subsystems
//! share: headers, attributes and statuses.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netlink.h, include/uapi/linux/netfilter/nfnetlink.h

use std::cell::Cell;
#[cfg(feature = "tools")]
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

pub(in crate::host) use crate::linux::netlink::{send, subscribe};
use crate::linux::{NetlinkProtocol, netlink};
use crate::net::IpFamily;

pub(in crate::host) const NLMSG_ERROR: u16 = 2;
pub(in crate::host) const NLMSG_DONE: u16 = 3;
pub(in crate::host) const NLM_F_REQUEST: u16 = 0x1;
pub(in crate::host) const NLM_F_ACK: u16 = 0x4;
/// Flag of replies: the table changed during the dump.
pub(in crate::host) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(in crate::host) const NLM_F_DUMP: u16 = 0x300;

const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;

const NLMSG_HEADER: usize = 16;
/// Size of the netfilter header, which follows the netlink header.
pub(in crate::host) const NFGENMSG: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;
const NLA_F_NESTED: u16 = 0x8000;
/// Mask without the two bits that say how an attribute's value is encoded.
const ATTRIBUTE_KIND: u16 = 0x3fff;

/// Returns the kernel's number of a family.
///
/// Linux: include/uapi/linux/netfilter.h, `NFPROTO_IPV4`, `NFPROTO_IPV6`
pub(in crate::host) const fn family_number(family: IpFamily) -> u8 {
    match family {
        IpFamily::V4 => 2,
        IpFamily::V6 => 10,
    }
}

/// Opens a socket for requests to netfilter.
pub(in crate::host) fn open() -> Result<OwnedFd, Errno> {
    netlink::open(NetlinkProtocol::Netfilter)
}

thread_local! {
    static SOCKET: Cell<Option<OwnedFd>> = const { Cell::new(None) };
}

/// Calls a function with this thread's socket, which is shared by all requests.
///
/// Closing a netfilter socket waits for the nftables transaction under way (`nft_rcv_nl_event`),
/// which may be a restore of some seconds and would block the whole daemon. So the socket stays
/// open, except after an error, when a reply to the last request could still arrive.
pub(in crate::host) fn with_socket<T>(
    exchange: impl FnOnce(&OwnedFd) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let socket = match SOCKET.take() {
        Some(socket) => socket,
        None => open()?,
    };
    let reply = exchange(&socket)?;
    SOCKET.set(Some(socket));
    Ok(reply)
}

/// Sends a request through this thread's socket and reads its only reply, which may be an error
/// status. Never blocks: the kernel queues the reply before `send` returns.
pub(in crate::host) fn query<T>(
    request: &[u8],
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<T, Errno> {
    /// An object takes some 100 bytes; an error status repeats the request.
    const REPLY_BYTES: usize = 1024;

    with_socket(|socket| {
        send(socket, request)?;
        let mut datagram = [0; REPLY_BYTES];
        read(receive(socket, &mut datagram)?).ok_or(Errno::EBADMSG)
    })
}

/// Receives the next datagram, which is already queued: the kernel replies before `send` returns.
pub(in crate::host) fn receive<'a>(
    socket: &impl AsRawFd,
    datagram: &'a mut [u8],
) -> Result<&'a [u8], Errno> {
    // With MSG_TRUNC the length is that of the datagram, even if it does not fit.
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
    let length = loop {
        match recv(socket.as_raw_fd(), datagram, flags) {
            Err(Errno::EINTR) => {}
            result => break result?,
        }
    };
    datagram.get(..length).ok_or(Errno::EMSGSIZE)
}

/// Appends a message: netlink header, netfilter header, and the body. The family is the kernel's
/// number, 0 for none.
pub(in crate::host) fn message(
    bytes: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    family: u8,
    body: impl FnOnce(&mut Vec<u8>),
) {
    // Version 0, resource id 0.
    write(bytes, (kind, flags), [family, 0, 0, 0], body);
}

/// Appends messages that the kernel applies as one transaction, between the begin and end messages
/// of a batch. The subsystem is the upper byte of message types.
pub(in crate::host) fn batch(
    bytes: &mut Vec<u8>,
    subsystem: u16,
    messages: impl FnOnce(&mut Vec<u8>),
) {
    let [number, _] = subsystem.to_be_bytes();
    let edge = |bytes: &mut Vec<u8>, kind| {
        write(bytes, (kind, NLM_F_REQUEST), [0, 0, 0, number], |_| {});
    };
    edge(bytes, NFNL_MSG_BATCH_BEGIN);
    messages(bytes);
    edge(bytes, NFNL_MSG_BATCH_END);
}

fn write(
    bytes: &mut Vec<u8>,
    (kind, flags): (u16, u16),
    netfilter: [u8; NFGENMSG],
    body: impl FnOnce(&mut Vec<u8>),
) {
    let start = bytes.len();
    bytes.extend([0; 4]);
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence number and port: only one request at a time is pending on a socket.
    bytes.extend([0; 8]);
    bytes.extend(netfilter);
    body(bytes);
    let length = u32::try_from(bytes.len() - start).unwrap_or(u32::MAX);
    if let Some(header) = bytes.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *header = length.to_ne_bytes();
    }
}

#[cfg(feature = "tools")]
pub(super) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

pub(in crate::host) fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    begin(bytes, kind, |bytes| bytes.extend(value));
}

/// Appends an attribute that is a zero-terminated text.
pub(in crate::host) fn text(bytes: &mut Vec<u8>, kind: u16, value: &str) {
    attribute(bytes, kind, &[value.as_bytes(), b"\0"].concat());
}

/// Appends an attribute that contains attributes.
pub(in crate::host) fn nested(bytes: &mut Vec<u8>, kind: u16, content: impl FnOnce(&mut Vec<u8>)) {
    begin(bytes, NLA_F_NESTED | kind, content);
}

fn begin(bytes: &mut Vec<u8>, kind: u16, content: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend([0; 2]);
    bytes.extend(kind.to_ne_bytes());
    content(bytes);
    let length = u16::try_from(bytes.len() - start).unwrap_or(u16::MAX);
    if let Some(header) = bytes.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *header = length.to_ne_bytes();
    }
    pad(bytes);
}

/// Pads to a multiple of four bytes, at which messages and attributes begin.
pub(in crate::host) fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[derive(Debug, Clone, Copy)]
pub(in crate::host) struct Received<'a> {
    pub(in crate::host) kind: u16,
    pub(in crate::host) flags: u16,
    /// Port of the socket that sent the request or, in a notification, made the change.
    pub(in crate::host) port: u32,
    /// Everything after the netlink header.
    pub(in crate::host) body: &'a [u8],
}

/// Returns the messages of one datagram. `None`, which is the last item, stands for bytes that are
/// not a valid message.
pub(in crate::host) fn messages(datagram: &[u8]) -> impl Iterator<Item = Option<Received<'_>>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = next(&mut rest);
        if message.is_none() {
            rest = &[];
        }
        Some(message)
    })
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<Received<'a>> {
    let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk()?)).ok()?;
    let message = rest.get(..length)?;
    let received = Received {
        body: message.get(NLMSG_HEADER..)?,
        kind: u16::from_ne_bytes(*message.get(4..)?.first_chunk()?),
        flags: u16::from_ne_bytes(*message.get(6..)?.first_chunk()?),
        port: u32::from_ne_bytes(*message.get(12..)?.first_chunk()?),
    };
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some(received)
}

/// Reads the body of an `NLMSG_ERROR`, which is also the acknowledgment; `None` if truncated.
pub(in crate::host) fn status(body: &[u8]) -> Option<Result<(), Errno>> {
    match i32::from_ne_bytes(*body.first_chunk()?) {
        0 => Some(Ok(())),
        code => Some(Err(Errno::from_raw(code.checked_neg()?))),
    }
}

#[derive(Debug, Clone, Copy)]
pub(in crate::host) struct Attribute<'a> {
    pub(in crate::host) kind: u16,
    pub(in crate::host) value: &'a [u8],
    /// Header and value, without the padding.
    pub(in crate::host) whole: &'a [u8],
}

/// Iterator over the attributes in some bytes, up to the first invalid one.
pub(in crate::host) struct Attributes<'a>(pub(in crate::host) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(*self.0.first_chunk()?));
        let kind = u16::from_ne_bytes(*self.0.get(2..)?.first_chunk()?);
        let whole = self.0.get(..length)?;
        let value = whole.get(ATTRIBUTE_HEADER..)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute {
            kind: kind & ATTRIBUTE_KIND,
            value,
            whole,
        })
    }
}

#[cfg(test)]
#[path = "tests/socket.rs"]
mod tests;
