//! The bytes of requests for one nfacct counter, and of their answers.
//!
//! Apart from [`nfacct`](super::nfacct), which owns the socket, so that answers the kernel would
//! never give can be tried, too.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netfilter/nfnetlink_acct.h

use nix::errno::Errno;

use super::netlink::{
    Attributes, NFGENMSG, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, message, messages, status, text,
};

/// A name and the zero byte behind it have 32 bytes in the kernel.
const LONGEST_NAME: usize = 31;

/// The subsystem is the upper byte of the message type.
const NFNL_SUBSYS_ACCT: u16 = 7 << 8;
const NFNL_MSG_ACCT_NEW: u16 = 0;
const NFNL_MSG_ACCT_GET: u16 = 1;

const NLM_F_CREATE: u16 = 0x400;

const NFACCT_NAME: u16 = 1;
const NFACCT_PKTS: u16 = 2;

/// What is asked of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// How far the counter is.
    Get,
    /// Make it.
    Create,
}

/// What the kernel said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The counter is there, and so far.
    Packets(u64),
    /// It was done.
    Done,
    /// It was not.
    Refused(Errno),
}

/// The request for the counter of that name.
///
/// # Errors
///
/// What the kernel would say of a name that no counter can have: it is empty, too long, or holds
/// a zero byte.
pub(super) fn request(what: Request, name: &str) -> Result<Vec<u8>, Errno> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
        return Err(Errno::EINVAL);
    }
    let (kind, flags) = match what {
        Request::Get => (NFNL_MSG_ACCT_GET, NLM_F_REQUEST),
        Request::Create => (NFNL_MSG_ACCT_NEW, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE),
    };
    let mut bytes = Vec::new();
    // Counters belong to no family.
    message(&mut bytes, NFNL_SUBSYS_ACCT | kind, flags, 0, |bytes| {
        text(bytes, NFACCT_NAME, name);
    });
    Ok(bytes)
}

/// The first message of a datagram that is an answer; `None`: there is none, whole and
/// understood.
pub(super) fn answer(datagram: &[u8]) -> Option<Answer> {
    for message in messages(datagram) {
        let message = message?;
        if message.kind == NLMSG_ERROR {
            return Some(status(message.body)?.map_or_else(Answer::Refused, |()| Answer::Done));
        }
        if message.kind == NFNL_SUBSYS_ACCT | NFNL_MSG_ACCT_NEW {
            return packets(message.body.get(NFGENMSG..)?).map(Answer::Packets);
        }
    }
    None
}

/// The number among the attributes of a counter.
fn packets(attributes: &[u8]) -> Option<u64> {
    let packets = Attributes(attributes).find(|attribute| attribute.kind == NFACCT_PKTS)?;
    packets.value.first_chunk().copied().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel writes it.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(16, 0);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn counter(packets: u64) -> Vec<u8> {
        let body = [
            vec![0; 4],
            attribute(1, b"shop\0"),
            attribute(2, &packets.to_be_bytes()),
            attribute(3, &77_u64.to_be_bytes()),
        ];
        message(0x700, &body.concat())
    }

    fn status(code: i32) -> Vec<u8> {
        message(2, &[code.to_ne_bytes().to_vec(), vec![0; 20]].concat())
    }

    #[test]
    fn requests_are_written_as_the_kernel_reads_them() {
        let bytes = request(Request::Create, "shop").unwrap();
        let mut expected = message(0x700, &[vec![0; 4], attribute(1, b"shop\0")].concat());
        expected[6..8].copy_from_slice(&0x405_u16.to_ne_bytes());
        assert_eq!(bytes, expected);

        let bytes = request(Request::Get, "shop").unwrap();
        expected[4..8].copy_from_slice(&[0x701_u16.to_ne_bytes(), 1_u16.to_ne_bytes()].concat());
        assert_eq!(bytes, expected);
    }

    #[test]
    fn names_that_no_counter_can_have_are_not_sent() {
        for name in ["", "a\0b", &"x".repeat(32)] {
            assert_eq!(request(Request::Get, name), Err(Errno::EINVAL), "{name:?}");
        }
        let bytes = request(Request::Get, &"x".repeat(31)).unwrap();
        assert_eq!((bytes.len(), bytes.last()), (56, Some(&0)));
    }

    #[test]
    fn answers_are_read() {
        assert_eq!(answer(&counter(u64::MAX)), Some(Answer::Packets(u64::MAX)));
        assert_eq!(answer(&status(0)), Some(Answer::Done));
        let refused = Some(Answer::Refused(Errno::ENOENT));
        assert_eq!(answer(&status(-2)), refused);
        // What is about something else is passed over.
        assert_eq!(answer(&[message(1, &[]), status(-2)].concat()), refused);
        assert_eq!(
            answer(&[message(0x100, &[9; 5]), counter(3)].concat()),
            Some(Answer::Packets(3))
        );
        // An attribute may say how its value is written.
        let marked = [vec![0; 4], attribute(0x4002, &5_u64.to_be_bytes())].concat();
        assert_eq!(answer(&message(0x700, &marked)), Some(Answer::Packets(5)));
    }

    #[test]
    fn what_is_cut_off_is_no_answer() {
        let number_ends = counter(3).len() - attribute(3, &[0; 8]).len();
        for whole in [status(-2), counter(3)] {
            for length in 0..whole.len() {
                assert_eq!(answer(&whole[..length]), None, "{length}");
                // The same, but its header says that this is all.
                let mut lies = whole[..length].to_vec();
                if let Some(header) = lies.first_chunk_mut() {
                    *header = u32::try_from(length).unwrap().to_ne_bytes();
                }
                let is_enough = if whole == counter(3) {
                    length >= number_ends
                } else {
                    length >= 20
                };
                assert_eq!(answer(&lies).is_some(), is_enough, "{length}");
            }
        }
        assert_eq!(answer(&status(i32::MIN)), None);
    }

    #[test]
    fn lengths_that_cannot_be_end_the_walk() {
        for length in [0_u32, 3, 15, u32::MAX] {
            let mut bytes = message(1, &[]);
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes.extend(status(0));
            assert_eq!(answer(&bytes), None, "{length}");
        }
        for length in [0_u16, 3, u16::MAX] {
            let mut body = vec![0; 4];
            body.extend(attribute(1, b"shop\0"));
            body[4..6].copy_from_slice(&length.to_ne_bytes());
            body.extend(attribute(2, &[0; 8]));
            assert_eq!(answer(&message(0x700, &body)), None, "{length}");
        }
    }
}
