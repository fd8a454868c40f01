//! Messages of netfilter's interfaces over netlink, as far as all of them are alike: headers,
//! attributes, statuses, and the socket.
//!
//! Apart from [`conntrack`](super::conntrack), [`nfacct`](super::nfacct) and
//! [`nft_tables`](super::nft_tables), which know what is said in them.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netlink.h, include/uapi/linux/netfilter/nfnetlink.h

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    setsockopt, socket,
};

use crate::net::IpFamily;

pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLMSG_DONE: u16 = 3;
pub(super) const NLM_F_REQUEST: u16 = 0x1;
pub(super) const NLM_F_ACK: u16 = 0x4;
/// In answers: the table changed while it was read.
pub(super) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(super) const NLM_F_DUMP: u16 = 0x300;

const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;

const NLMSG_HEADER: usize = 16;
/// The header of every netfilter message, behind that of every message.
pub(super) const NFGENMSG: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;
const NLA_F_NESTED: u16 = 0x8000;
/// Without the two bits that tell how an attribute's value is written.
const ATTRIBUTE_KIND: u16 = 0x3fff;

/// The kernel's number of a family.
///
/// Linux: include/uapi/linux/netfilter.h, `NFPROTO_IPV4`, `NFPROTO_IPV6`
pub(super) const fn number(family: IpFamily) -> u8 {
    match family {
        IpFamily::V4 => 2,
        IpFamily::V6 => 10,
    }
}

/// A socket to ask netfilter through.
pub(super) fn open() -> Result<OwnedFd, Errno> {
    open_with(SockFlag::empty())
}

fn open_with(flags: SockFlag) -> Result<OwnedFd, Errno> {
    socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | flags,
        SockProtocol::NetlinkNetFilter,
    )
}

/// A socket that receives the notifications of a multicast group, without blocking.
///
/// # Errors
///
/// Mostly `EPERM`: the capability `NET_ADMIN` is missing.
pub(super) fn subscribe(group: u32, buffer_bytes: usize) -> Result<OwnedFd, Errno> {
    let socket = open_with(SockFlag::SOCK_NONBLOCK)?;
    // Without the right to exceed the limit of the system, as much as that allows.
    if setsockopt(&socket, RcvBufForce, &buffer_bytes).is_err() {
        setsockopt(&socket, RcvBuf, &buffer_bytes)?;
    }
    let groups = 1_u32.checked_shl(group - 1).ok_or(Errno::EINVAL)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

thread_local! {
    static SOCKET: Cell<Option<OwnedFd>> = const { Cell::new(None) };
}

/// One socket for all questions. Not one for each: at the end of every socket of netfilter the
/// kernel waits for nftables to finish what it is at (`nft_rcv_nl_event`), which may be a restore
/// of some seconds, and whoever waits here holds up the whole daemon.
///
/// After an error it is not used again: an answer to the last question could still arrive.
pub(super) fn with_socket<T>(
    question: impl FnOnce(&OwnedFd) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let socket = match SOCKET.take() {
        Some(socket) => socket,
        None => open()?,
    };
    let answer = question(&socket)?;
    SOCKET.set(Some(socket));
    Ok(answer)
}

/// Asks the kernel through that socket, and reads its one answer; a refusal is an answer, too.
/// There is nothing to wait for: it has answered before it returns from the sending.
pub(super) fn ask<T>(request: &[u8], read: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, Errno> {
    /// An object takes some 100 bytes, a refusal repeats the request.
    const ANSWER_BYTES: usize = 1024;

    with_socket(|socket| {
        send(socket, request)?;
        let mut datagram = [0; ANSWER_BYTES];
        read(receive(socket, &mut datagram)?).ok_or(Errno::EBADMSG)
    })
}

/// Sends the kernel some messages.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), bytes, &kernel, MsgFlags::empty()).map(drop)
}

/// The next datagram, which has to be there: the kernel answers before it returns from the sending.
pub(super) fn receive<'a>(
    socket: &impl AsRawFd,
    datagram: &'a mut [u8],
) -> Result<&'a [u8], Errno> {
    // With this flag the length is the datagram's own, even if there is no room for it.
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
    let length = loop {
        match recv(socket.as_raw_fd(), datagram, flags) {
            Err(Errno::EINTR) => {}
            result => break result?,
        }
    };
    datagram.get(..length).ok_or(Errno::EMSGSIZE)
}

/// Writes a message: its header, the header of netfilter, and what `body` adds. The family is in
/// the kernel's numbers, 0 for none.
pub(super) fn message(
    bytes: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    family: u8,
    body: impl FnOnce(&mut Vec<u8>),
) {
    // Version 0, and no resource.
    write(bytes, (kind, flags), [family, 0, 0, 0], body);
}

/// Writes messages of which the kernel does all or none, between the two that say so to the
/// subsystem, the upper byte of their types.
pub(super) fn batch(bytes: &mut Vec<u8>, subsystem: u16, messages: impl FnOnce(&mut Vec<u8>)) {
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
    // Sequence number and port: one question at a time goes through a socket.
    bytes.extend([0; 8]);
    bytes.extend(netfilter);
    body(bytes);
    let length = u32::try_from(bytes.len() - start).unwrap_or(u32::MAX);
    if let Some(header) = bytes.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *header = length.to_ne_bytes();
    }
}

/// Writes an attribute.
pub(super) fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    begin(bytes, kind, |bytes| bytes.extend(value));
}

/// Writes an attribute that is a text, with the zero byte behind it.
pub(super) fn text(bytes: &mut Vec<u8>, kind: u16, value: &str) {
    attribute(bytes, kind, &[value.as_bytes(), b"\0"].concat());
}

/// Writes an attribute of attributes.
pub(super) fn nested(bytes: &mut Vec<u8>, kind: u16, content: impl FnOnce(&mut Vec<u8>)) {
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

/// Everything begins at a multiple of four bytes.
pub(super) fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// A message that was received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    /// Port of the socket that asked for it or, in a notification, that made the change.
    pub(super) port: u32,
    /// Behind the first header.
    pub(super) body: &'a [u8],
}

/// The messages of one datagram. `None` for what is none; then there is nothing more.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = Option<Received<'_>>> {
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

/// What the body of an answer to a request says. `None`: it is cut off.
pub(super) fn status(body: &[u8]) -> Option<Result<(), Errno>> {
    match i32::from_ne_bytes(*body.first_chunk()?) {
        0 => Some(Ok(())),
        code => Some(Err(Errno::from_raw(code.checked_neg()?))),
    }
}

/// One attribute, and all of its bytes without the padding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attribute<'a> {
    pub(super) kind: u16,
    pub(super) value: &'a [u8],
    pub(super) whole: &'a [u8],
}

/// The attributes in some bytes, up to the first that cannot be one.
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

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
