//! Kernels that are older, busier or stricter than the one at hand, played by a script.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::host::tests::conntrack_bytes::{
    CLIENT, POD, VIP, attribute, message, parts, status, tuple, whole,
};
use crate::net::Port;

const NLM_F_DUMP_INTR: u16 = 0x10;
const CTNETLINK_GET: [u8; 2] = 0x101_u16.to_ne_bytes();

/// What is to be received, one datagram after the other.
type Dump = Vec<Result<Vec<u8>, Errno>>;

/// Answers each dump as the script says, and each deletion with the next status: 0 behind the last.
#[derive(Debug, Default)]
struct Script {
    dumps: VecDeque<Dump>,
    statuses: VecDeque<Errno>,
    /// Opening fails with this.
    closed: Option<Errno>,
    /// How many answers to deletions are never given.
    silent: usize,
    opened: u32,
    to_come: BTreeMap<u32, VecDeque<Result<Vec<u8>, Errno>>>,
    /// All requests for entries.
    asked: Vec<Vec<u8>>,
    /// How many deletions there were in each datagram.
    deletions: Vec<usize>,
}

impl Kernel for Script {
    type Socket = u32;

    fn open(&mut self) -> Result<u32, Errno> {
        self.opened += 1;
        self.closed.map_or(Ok(self.opened), Err)
    }

    fn send(&mut self, socket: &u32, bytes: &[u8]) -> Result<(), Errno> {
        let to_come = self.to_come.entry(*socket).or_default();
        if bytes[4..6] == CTNETLINK_GET {
            self.asked.push(bytes.to_vec());
            to_come.extend(self.dumps.pop_front().expect("more is asked than scripted"));
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
                to_come.push_back(Ok(status(code)));
            }
        }
        self.deletions.push(count);
        Ok(())
    }

    fn receive<'a>(&mut self, socket: &u32, datagram: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let next = self.to_come.entry(*socket).or_default().pop_front();
        let next = next.unwrap_or(Err(Errno::EAGAIN))?;
        let room = datagram.get_mut(..next.len()).ok_or(Errno::EMSGSIZE)?;
        room.copy_from_slice(&next);
        Ok(room)
    }
}

fn walker(dumps: impl IntoIterator<Item = Dump>) -> Walker<Script> {
    Walker::new(Script {
        dumps: dumps.into_iter().collect(),
        ..Script::default()
    })
}

/// One entry to the VIP, which is stale.
fn stale() -> Vec<u8> {
    whole(&parts(17))
}

fn end(flags: u16) -> Vec<u8> {
    message(3, 2 | flags, &[0; 4])
}

fn dump_of(messages: &[Vec<u8>]) -> Dump {
    vec![Ok(messages.concat()), Ok(end(0))]
}

/// A refusal, and what may still be to come: nobody may take it for an answer to what follows.
fn refused(errno: Errno) -> Dump {
    vec![Ok(status(-(errno as i32))), Ok(end(0))]
}

/// Sweeps what goes to the VIP, which nobody may answer.
fn sweep(walker: &mut Walker<Script>) -> (u64, Result<(), FlowError>) {
    let vip = VIP.parse().unwrap();
    walker.sweep(IpFamily::V4, &[Filter::To(vip)], &mut |flow| {
        flow.destination == vip
    })
}

/// Whether each request so far has asked for a part.
fn asked_for_parts(walker: &Walker<Script>) -> Vec<bool> {
    let bare = dump(IpFamily::V4, None);
    walker.kernel.asked.iter().map(|r| *r != bare).collect()
}

const INTERRUPTED: Result<(), FlowError> = Err(FlowError::CutShort(Errno::EINTR));

#[test]
fn an_interrupted_look_begins_again() {
    let flagged = [
        // The flag is on whatever the kernel was writing then.
        vec![
            Ok(message(0x100, 2 | NLM_F_DUMP_INTR, &[2, 0, 0, 0])),
            Ok(end(0)),
        ],
        vec![Ok([stale(), end(NLM_F_DUMP_INTR)].concat())],
    ];
    for first in flagged {
        let mut walker = walker([first, dump_of(&[stale()])]);
        let (_, result) = sweep(&mut walker);
        assert_eq!(result, Ok(()));
        assert_eq!(walker.kernel.asked.len(), 2);
        assert_eq!(walker.kernel.opened, 2, "the same two sockets");
    }
}

#[test]
fn five_interrupted_looks_are_enough_for_now() {
    let interrupted = || vec![Ok([stale(), end(NLM_F_DUMP_INTR)].concat())];
    let mut walker = walker(std::iter::repeat_with(interrupted).take(6));
    // Deleted the first time, and gone by itself the other times.
    walker.kernel.statuses = [Errno::from_raw(0)].into();
    walker.kernel.statuses.extend([Errno::ENOENT; 4]);
    assert_eq!(sweep(&mut walker), (1, INTERRUPTED));
    assert_eq!(walker.kernel.asked.len(), 5);
    walker.kernel.dumps = [dump_of(&[stale()])].into();
    assert_eq!(sweep(&mut walker), (1, Ok(())));
}

#[test]
fn a_kernel_that_refuses_filters_is_asked_for_everything() {
    for errno in [Errno::EINVAL, Errno::EOPNOTSUPP] {
        let mut walker = walker([
            refused(errno),
            dump_of(&[stale()]),
            dump_of(&[stale(), stale()]),
        ]);
        assert_eq!(sweep(&mut walker), (1, Ok(())));
        // It is not asked for a part again.
        assert_eq!(sweep(&mut walker), (2, Ok(())));
        assert_eq!(asked_for_parts(&walker), [true, false, false]);
    }
}

#[test]
fn a_kernel_that_ignores_filters_tells_too_much() {
    let elsewhere = "10.96.0.99:53";
    let other = [
        tuple(1, 17, CLIENT, elsewhere),
        tuple(2, 17, POD, CLIENT),
        attribute(12, &[1, 2, 3, 4]),
    ];
    let everything = [whole(&parts(6)), whole(&other), stale(), whole(&parts(1))];
    let mut walker = walker([dump_of(&everything)]);
    assert_eq!(sweep(&mut walker), (1, Ok(())));
    assert_eq!(walker.kernel.deletions, [1]);
}

#[test]
fn a_kernel_that_refuses_everything_has_nothing_to_show() {
    for errno in [Errno::EINVAL, Errno::EOPNOTSUPP] {
        let mut walker = walker([refused(errno), refused(errno)]);
        let unavailable = Err(FlowError::Unavailable(errno));
        assert_eq!(sweep(&mut walker), (0, unavailable));
    }
}

#[test]
fn without_the_right_there_is_nothing_to_be_had() {
    let unavailable = Err(FlowError::Unavailable(Errno::EPERM));
    let mut asking = walker([refused(Errno::EPERM)]);
    assert_eq!(sweep(&mut asking), (0, unavailable));
    let mut opening = walker([]);
    opening.kernel.closed = Some(Errno::EPERM);
    assert_eq!(sweep(&mut opening), (0, unavailable));
    let mut deleting = walker([dump_of(&[stale()])]);
    deleting.kernel.statuses = [Errno::EPERM].into();
    assert_eq!(sweep(&mut deleting), (0, unavailable));
}

#[test]
fn offloaded_flows_are_left_for_later_and_the_others_are_not() {
    let mut walker = walker([dump_of(&[stale(), stale(), stale()]), dump_of(&[stale()])]);
    walker.kernel.statuses = [Errno::EBUSY, Errno::ENOENT].into();
    let busy = Err(FlowError::CutShort(Errno::EBUSY));
    assert_eq!(sweep(&mut walker), (1, busy));
    assert_eq!(sweep(&mut walker), (1, Ok(())));
    assert_eq!(
        walker.kernel.opened, 2,
        "no answer is to come: the same two sockets"
    );
}

/// After an error, what is still to come is an answer to what was asked before.
#[test]
fn a_look_that_breaks_off_is_an_error_and_the_next_one_starts_afresh() {
    let message = stale();
    let cut = message[..message.len() - 1].to_vec();
    let left_over = Ok([stale(), end(0)].concat());
    for (broken, errno, deleted) in [
        (vec![Ok(cut), left_over.clone()], Errno::EBADMSG, 0),
        // What was told before is done.
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
        (vec![Ok(message_of_overrun()), left_over], Errno::ENOBUFS, 0),
    ] {
        let mut walker = walker([broken, dump_of(&[])]);
        let cut_short = Err(FlowError::CutShort(errno));
        assert_eq!(sweep(&mut walker), (deleted, cut_short));
        assert_eq!(sweep(&mut walker), (0, Ok(())), "{errno}");
        assert_eq!(walker.kernel.opened, 4, "{errno}");
    }
}

fn message_of_overrun() -> Vec<u8> {
    message(4, 0, &[])
}

#[test]
fn a_deletion_that_nobody_answers_is_an_error() {
    let mut walker = walker([dump_of(&[stale(), stale()])]);
    walker.kernel.silent = 1;
    let cut_short = Err(FlowError::CutShort(Errno::EAGAIN));
    assert_eq!(sweep(&mut walker), (1, cut_short));
}

#[test]
fn deletions_come_in_parts_that_can_be_answered() {
    let mut walker = walker([dump_of(&vec![stale(); 150])]);
    assert_eq!(sweep(&mut walker), (150, Ok(())));
    assert_eq!(walker.kernel.deletions, [64, 64, 22]);
}

#[test]
fn every_filter_is_asked_for() {
    let port = |port| Filter::ToPort(Port::new(port).unwrap());
    let filters = [port(53), port(54)];
    let mut walker = walker([dump_of(&[]), dump_of(&[stale()])]);
    let swept = walker.sweep(IpFamily::V4, &filters, &mut |_| true);
    assert_eq!(swept, (1, Ok(())));
    let expected = filters.map(|filter| dump(IpFamily::V4, Some(filter)));
    assert_eq!(walker.kernel.asked, expected);
}

#[test]
fn a_kernel_that_refuses_filters_is_asked_once_for_all_of_them() {
    let filters = [53, 54, 55].map(|port| Filter::ToPort(Port::new(port).unwrap()));
    let mut walker = walker([refused(Errno::EINVAL), dump_of(&[stale()]), dump_of(&[])]);
    for deleted in [1, 0] {
        let swept = walker.sweep(IpFamily::V4, &filters, &mut |_| true);
        assert_eq!(swept, (deleted, Ok(())));
    }
    assert_eq!(asked_for_parts(&walker), [true, false, false]);
}
