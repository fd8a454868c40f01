//! Sweeps of kernels that are older, busier or stricter than the one at hand, played by a script.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::host::tests::conntrack_bytes::{
    CLIENT, POD, VIP, attribute, message, parts, status, tuple, whole,
};
use crate::net::Port;

const NLM_F_DUMP_INTR: u16 = 0x10;
const CTNETLINK_GET: [u8; 2] = 0x101_u16.to_ne_bytes();

/// Datagrams of a dump, or errors in their place.
type ScriptedDump = Vec<Result<Vec<u8>, Errno>>;

/// Replies to each dump from the script, and to each deletion with the next status, 0 after the
/// last.
#[derive(Debug, Default)]
struct Script {
    dumps: VecDeque<ScriptedDump>,
    statuses: VecDeque<Errno>,
    /// Opening fails with this.
    closed: Option<Errno>,
    /// Number of deletions without a reply.
    silent: usize,
    opened: u32,
    pending: BTreeMap<u32, VecDeque<Result<Vec<u8>, Errno>>>,
    /// Requests for dumps.
    requests: Vec<Vec<u8>>,
    /// Number of deletions in each datagram.
    deletions: Vec<usize>,
}

impl Transport for Script {
    type Socket = u32;

    fn open(&mut self) -> Result<u32, Errno> {
        self.opened += 1;
        self.closed.map_or(Ok(self.opened), Err)
    }

    fn send(&mut self, socket: &u32, bytes: &[u8]) -> Result<(), Errno> {
        let pending = self.pending.entry(*socket).or_default();
        if bytes[4..6] == CTNETLINK_GET {
            self.requests.push(bytes.to_vec());
            let dump = self.dumps.pop_front();
            pending.extend(dump.expect("more dumps are requested than scripted"));
            return Ok(());
        }
        let mut count = 0;
        let mut rest = bytes;
        while let Some(length) = rest.first_chunk() {
            rest = &rest[usize::try_from(u32::from_ne_bytes(*length)).unwrap()..];
            count += 1;
            let code = self.statuses.pop_front().map_or(0, |errno| -(errno as i32));
            if self.silent > 0 {
                self.silent -= 1;
            } else {
                pending.push_back(Ok(status(code)));
            }
        }
        self.deletions.push(count);
        Ok(())
    }

    fn receive<'a>(&mut self, socket: &u32, datagram: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let next = self.pending.entry(*socket).or_default().pop_front();
        let next = next.unwrap_or(Err(Errno::EAGAIN))?;
        let room = datagram.get_mut(..next.len()).ok_or(Errno::EMSGSIZE)?;
        room.copy_from_slice(&next);
        Ok(room)
    }
}

fn sweeper(dumps: impl IntoIterator<Item = ScriptedDump>) -> Sweeper<Script> {
    Sweeper::new(Script {
        dumps: dumps.into_iter().collect(),
        ..Script::default()
    })
}

/// Returns an entry to the VIP, which is stale.
fn stale() -> Vec<u8> {
    whole(&parts(17))
}

fn end(flags: u16) -> Vec<u8> {
    message(3, 2 | flags, &[0; 4])
}

fn dump_of(messages: &[Vec<u8>]) -> ScriptedDump {
    vec![Ok(messages.concat()), Ok(end(0))]
}

/// Returns an error, and a pending end that must not be taken for the reply to a later request.
fn rejected(errno: Errno) -> ScriptedDump {
    vec![Ok(status(-(errno as i32))), Ok(end(0))]
}

/// Sweeps all entries to the VIP.
fn sweep(sweeper: &mut Sweeper<Script>) -> (u64, Result<(), FlowError>) {
    let vip = VIP.parse().unwrap();
    sweeper.sweep(IpFamily::V4, &[Filter::To(vip)], &mut |flow| {
        flow.destination == vip
    })
}

/// Reports for each dump request whether it had a filter.
fn has_filter(sweeper: &Sweeper<Script>) -> Vec<bool> {
    let unfiltered = dump_request(IpFamily::V4, None);
    let requests = sweeper.transport.requests.iter();
    requests.map(|request| *request != unfiltered).collect()
}

const INTERRUPTED: Result<(), FlowError> = Err(FlowError::Incomplete(Errno::EINTR));

#[test]
fn an_interrupted_dump_is_repeated() {
    let flagged = [
        // The flag is on the message that the kernel was writing.
        vec![
            Ok(message(0x100, 2 | NLM_F_DUMP_INTR, &[2, 0, 0, 0])),
            Ok(end(0)),
        ],
        vec![Ok([stale(), end(NLM_F_DUMP_INTR)].concat())],
    ];
    for first in flagged {
        let mut sweeper = sweeper([first, dump_of(&[stale()])]);
        let (_, result) = sweep(&mut sweeper);
        assert_eq!(result, Ok(()));
        assert_eq!(sweeper.transport.requests.len(), 2);
        assert_eq!(sweeper.transport.opened, 2, "the same two sockets");
    }
}

#[test]
fn a_sweep_fails_after_five_interrupted_dumps() {
    let interrupted = || vec![Ok([stale(), end(NLM_F_DUMP_INTR)].concat())];
    let mut sweeper = sweeper(std::iter::repeat_with(interrupted).take(6));
    // Deleted the first time, and missing the other times.
    sweeper.transport.statuses = [Errno::from_raw(0)].into();
    sweeper.transport.statuses.extend([Errno::ENOENT; 4]);
    assert_eq!(sweep(&mut sweeper), (1, INTERRUPTED));
    assert_eq!(sweeper.transport.requests.len(), 5);
    sweeper.transport.dumps = [dump_of(&[stale()])].into();
    assert_eq!(sweep(&mut sweeper), (1, Ok(())));
}

#[test]
fn a_kernel_that_rejects_filters_dumps_everything() {
    for errno in [Errno::EINVAL, Errno::EOPNOTSUPP] {
        let mut sweeper = sweeper([
            rejected(errno),
            dump_of(&[stale()]),
            dump_of(&[stale(), stale()]),
        ]);
        assert_eq!(sweep(&mut sweeper), (1, Ok(())));
        // No further request has a filter.
        assert_eq!(sweep(&mut sweeper), (2, Ok(())));
        assert_eq!(has_filter(&sweeper), [true, false, false]);
    }
}

#[test]
fn entries_that_do_not_match_an_ignored_filter_stay() {
    let other_vip = "10.96.0.99:53";
    let other = [
        tuple(1, 17, CLIENT, other_vip),
        tuple(2, 17, POD, CLIENT),
        attribute(12, &[1, 2, 3, 4]),
    ];
    let everything = [whole(&parts(6)), whole(&other), stale(), whole(&parts(1))];
    let mut sweeper = sweeper([dump_of(&everything)]);
    assert_eq!(sweep(&mut sweeper), (1, Ok(())));
    assert_eq!(sweeper.transport.deletions, [1]);
}

#[test]
fn conntrack_is_unavailable_if_unfiltered_dumps_are_rejected() {
    for errno in [Errno::EINVAL, Errno::EOPNOTSUPP] {
        let mut sweeper = sweeper([rejected(errno), rejected(errno)]);
        let unavailable = Err(FlowError::Unavailable(errno));
        assert_eq!(sweep(&mut sweeper), (0, unavailable));
    }
}

#[test]
fn conntrack_is_unavailable_without_permission() {
    let unavailable = Err(FlowError::Unavailable(Errno::EPERM));
    let mut dumping = sweeper([rejected(Errno::EPERM)]);
    assert_eq!(sweep(&mut dumping), (0, unavailable));
    let mut opening = sweeper([]);
    opening.transport.closed = Some(Errno::EPERM);
    assert_eq!(sweep(&mut opening), (0, unavailable));
    let mut deleting = sweeper([dump_of(&[stale()])]);
    deleting.transport.statuses = [Errno::EPERM].into();
    assert_eq!(sweep(&mut deleting), (0, unavailable));
}

#[test]
fn offloaded_entries_are_left_for_the_next_sweep() {
    let mut sweeper = sweeper([dump_of(&[stale(), stale(), stale()]), dump_of(&[stale()])]);
    sweeper.transport.statuses = [Errno::EBUSY, Errno::ENOENT].into();
    let busy = Err(FlowError::Incomplete(Errno::EBUSY));
    assert_eq!(sweep(&mut sweeper), (1, busy));
    assert_eq!(sweep(&mut sweeper), (1, Ok(())));
    assert_eq!(sweeper.transport.opened, 2, "the same two sockets");
}

/// After an error, a pending datagram is a reply to the previous request.
#[test]
fn a_broken_dump_is_an_error_and_the_next_sweep_opens_new_sockets() {
    let mut cut = stale();
    cut.pop();
    let left_over = Ok([stale(), end(0)].concat());
    for (broken, errno, deleted) in [
        (vec![Ok(cut), left_over.clone()], Errno::EBADMSG, 0),
        // Entries received before are deleted.
        (vec![Ok(stale())], Errno::EAGAIN, 1),
        (
            vec![Ok(stale()), Err(Errno::ENOBUFS), left_over.clone()],
            Errno::ENOBUFS,
            1,
        ),
        (
            vec![Ok(vec![0; DATAGRAM_BYTES + 1]), left_over.clone()],
            Errno::EMSGSIZE,
            0,
        ),
        // The message of an overrun.
        (vec![Ok(message(4, 0, &[])), left_over], Errno::ENOBUFS, 0),
    ] {
        let mut sweeper = sweeper([broken, dump_of(&[])]);
        let incomplete = Err(FlowError::Incomplete(errno));
        assert_eq!(sweep(&mut sweeper), (deleted, incomplete));
        assert_eq!(sweep(&mut sweeper), (0, Ok(())), "{errno}");
        assert_eq!(sweeper.transport.opened, 4, "{errno}");
    }
}

#[test]
fn a_deletion_without_reply_is_an_error() {
    let mut sweeper = sweeper([dump_of(&[stale(), stale()])]);
    sweeper.transport.silent = 1;
    let incomplete = Err(FlowError::Incomplete(Errno::EAGAIN));
    assert_eq!(sweep(&mut sweeper), (1, incomplete));
}

#[test]
fn deletions_are_sent_in_batches() {
    let mut sweeper = sweeper([dump_of(&vec![stale(); 150])]);
    assert_eq!(sweep(&mut sweeper), (150, Ok(())));
    assert_eq!(sweeper.transport.deletions, [64, 64, 22]);
}

#[test]
fn each_filter_has_a_dump_of_its_own() {
    let port = |port| Filter::ToPort(Port::new(port).unwrap());
    let filters = [port(53), port(54)];
    let mut sweeper = sweeper([dump_of(&[]), dump_of(&[stale()])]);
    let swept = sweeper.sweep(IpFamily::V4, &filters, &mut |_| true);
    assert_eq!(swept, (1, Ok(())));
    let expected = filters.map(|filter| dump_request(IpFamily::V4, Some(filter)));
    assert_eq!(sweeper.transport.requests, expected);
}

#[test]
fn a_kernel_that_rejects_filters_dumps_once_for_all_of_them() {
    let filters = [53, 54, 55].map(|port| Filter::ToPort(Port::new(port).unwrap()));
    let mut sweeper = sweeper([rejected(Errno::EINVAL), dump_of(&[stale()]), dump_of(&[])]);
    for deleted in [1, 0] {
        let swept = sweeper.sweep(IpFamily::V4, &filters, &mut |_| true);
        assert_eq!(swept, (deleted, Ok(())));
    }
    assert_eq!(has_filter(&sweeper), [true, false, false]);
}
