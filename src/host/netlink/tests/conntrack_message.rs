//! Bytes of conntrack replies, as in the memory of a little-endian machine.

use super::*;
use crate::host::tests::conntrack_bytes::{
    POD, VIP, attribute, message, parts, status, tuple, whole,
};

fn flow(destination: &str, reply_source: &str) -> Flow {
    Flow {
        destination: destination.parse().unwrap(),
        reply_source: reply_source.parse().unwrap(),
    }
}

fn read(datagram: &[u8]) -> Vec<Option<ConntrackReply<'_>>> {
    let read = replies(datagram).map(|message| message.map(|message| message.reply));
    read.collect()
}

const IGNORED: [Option<ConntrackReply<'static>>; 1] = [Some(ConntrackReply::Ignored)];

fn flow_in(datagram: &[u8]) -> Option<Flow> {
    match read(datagram).pop() {
        Some(Some(ConntrackReply::Entry(entry))) => Some(entry.flow),
        _ => None,
    }
}

#[test]
fn conntrack_entries_are_read() {
    assert_eq!(flow_in(&whole(&parts(17))), Some(flow(VIP, POD)));
    let (vip, pod) = ("[fd00:10:96::a]:53", "[fd00:10:4::1]:5353");
    let v6 = [
        tuple(1, 17, "[fd00:10:4::20]:40000", vip),
        tuple(2, 17, pod, "[fd00:10:4::20]:40000"),
        attribute(12, &[1, 2, 3, 4]),
    ];
    assert_eq!(flow_in(&whole(&v6)), Some(flow(vip, pod)));
}

#[test]
fn entries_of_other_protocols_are_ignored() {
    for protocol in [1, 6, 132] {
        assert_eq!(read(&whole(&parts(protocol))), IGNORED, "{protocol}");
    }
}

#[test]
fn entries_without_tuple_or_id_are_ignored() {
    for absent in [0, 1, 3] {
        let mut parts = parts(17);
        parts[absent].clear();
        assert_eq!(read(&whole(&parts)), IGNORED, "{absent}");
    }
}

#[test]
fn ends_of_dumps_and_statuses_are_read() {
    let end = |end| Some(ConntrackReply::End(end));
    assert_eq!(read(&status(0)), [end(Ok(()))]);
    assert_eq!(read(&status(-2)), [end(Err(Errno::ENOENT))]);
    assert_eq!(read(&message(3, 2, &[0; 4])), [end(Ok(()))]);
    assert_eq!(read(&message(3, 2, &[])), [end(Ok(()))]);
    let out_of_memory = message(3, 2, &(-12_i32).to_ne_bytes());
    assert_eq!(read(&out_of_memory), [end(Err(Errno::ENOMEM))]);
    assert_eq!(read(&message(4, 0, &[])), [end(Err(Errno::ENOBUFS))]);
    assert_eq!(read(&message(1, 0, &[])), IGNORED);
    assert_eq!(read(&status(i32::MIN)), [None]);
}

#[test]
fn an_interrupted_dump_is_recognized() {
    let is_interrupted = |flags| {
        let bytes = message(3, flags, &[0; 4]);
        replies(&bytes).next().unwrap().unwrap().is_interrupted
    };
    assert!(is_interrupted(0x12));
    assert!(!is_interrupted(0x2));
}

#[test]
fn all_messages_of_a_datagram_are_read() {
    let bytes = [whole(&parts(6)), whole(&parts(17)), status(0)].concat();
    assert_eq!(read(&bytes).len(), 3);
    assert_eq!(read(&[]), []);
}

#[test]
fn truncated_messages_are_not_read() {
    let bytes = whole(&parts(17));
    for length in 1..bytes.len() {
        assert_eq!(read(&bytes[..length]), [None], "{length}");
    }
    for length in [0_u32, 3, 15, u32::MAX] {
        let mut bytes = [status(0), status(0)].concat();
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(read(&bytes), [None], "{length}");
    }
    for length in [0_u16, 3, u16::MAX] {
        let mut bytes = whole(&parts(17));
        bytes[20..22].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(read(&bytes), IGNORED, "{length}");
    }
}

#[test]
fn deletions_repeat_the_tuple_id_and_zone_of_the_entry() {
    let zone = attribute(18, &[0, 7]);
    let in_zone = [parts(17).to_vec(), vec![zone.clone()]].concat();
    let bytes = [whole(&parts(17)), whole(&in_zone)].concat();
    let mut deletions = Deletions::new(IpFamily::V4);
    for message in replies(&bytes) {
        if let ConntrackReply::Entry(entry) = message.unwrap().reply {
            deletions.add(&entry);
        }
    }
    let [original, _, _, id] = parts(17);
    let deletion = |parts: &[&[u8]]| {
        let body = [&[2, 0, 0, 0], &parts.concat()[..]].concat();
        message(0x102, 0x5, &body)
    };
    let expected = [
        deletion(&[&original, &id]),
        // The padding is not part of the zone attribute, and has to be sent.
        deletion(&[&original, &id, &zone]),
    ];
    assert_eq!(deletions.bytes(), expected.concat());
    assert_eq!(deletions.len(), 2);
    deletions.clear();
    assert_eq!((deletions.len(), deletions.bytes()), (0, &[][..]));
}
