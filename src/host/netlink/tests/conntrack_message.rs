//! Bytes of conntrack requests and replies, as in the memory of a little-endian machine.

use super::*;
use crate::host::tests::conntrack_bytes::{
    POD, VIP, attribute, message, parts, status, tuple, whole,
};

/// Returns bytes from groups of hexadecimal digits; `#` begins a comment.
fn bytes(text: &str) -> Vec<u8> {
    let codes = text.lines().flat_map(|line| {
        let code = line.split('#').next().unwrap_or_default();
        code.chars().filter(|c| !c.is_whitespace())
    });
    let digits: Vec<_> = codes.map(|c| c.to_digit(16).unwrap()).collect();
    let pairs = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]);
    pairs.map(|byte| u8::try_from(byte).unwrap()).collect()
}

#[track_caller]
fn check(actual: &[u8], expected: &str) {
    if cfg!(target_endian = "little") {
        assert_eq!(actual, bytes(expected), "{actual:02x?}");
    }
}

#[test]
fn a_dump_request_without_filter() {
    check(
        &dump_request(IpFamily::V4, None),
        "14000000 0101 0103 00000000 00000000  # length, GET, REQUEST|DUMP, sequence, port
         02000000                              # AF_INET",
    );
}

#[test]
fn a_dump_request_for_udp() {
    check(
        &dump_request(IpFamily::V6, Some(Filter::Everything)),
        "38000000 0101 0103 00000000 00000000
         0a000000             # AF_INET6
         1000 0180            # CTA_TUPLE_ORIG
           0c00 0280          #   CTA_TUPLE_PROTO
             0500 0100 11 000000  # CTA_PROTO_NUM 17
         1400 1980            # CTA_FILTER
           0800 0100 08000000 #   compare the original's protocol
           0800 0200 00000000 #   and nothing of the reply",
    );
}

#[test]
fn a_dump_request_for_an_ipv4_address_and_port() {
    let to = Filter::To("10.96.0.10:53".parse().unwrap());
    check(
        &dump_request(IpFamily::V4, Some(to)),
        "4c000000 0101 0103 00000000 00000000
         02000000
         2400 0180
           0c00 0180              # CTA_TUPLE_IP
             0800 0200 0a60000a   #   CTA_IP_V4_DST
           1400 0280
             0500 0100 11 000000
             0600 0300 0035 0000  # CTA_PROTO_DST_PORT
         1400 1980
           0800 0100 2a000000     # destination, its port, protocol
           0800 0200 00000000",
    );
}

#[test]
fn a_dump_request_for_an_ipv6_address_names_only_its_port() {
    let port = Filter::ToPort(30053.try_into().unwrap());
    let v6 = Filter::To("[fd00::a]:30053".parse().unwrap());
    for filter in [port, v6] {
        check(
            &dump_request(IpFamily::V6, Some(filter)),
            "40000000 0101 0103 00000000 00000000
             0a000000
             1800 0180
               1400 0280
                 0500 0100 11 000000
                 0600 0300 7565 0000
             1400 1980
               0800 0100 28000000  # destination port and protocol
               0800 0200 00000000",
        );
    }
}

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
        assert_eq!(
            read(&whole(&parts(protocol))),
            [Some(ConntrackReply::Ignored)]
        );
    }
}

#[test]
fn entries_without_tuple_or_id_are_ignored() {
    for absent in [0, 1, 3] {
        let mut parts = parts(17);
        parts[absent].clear();
        assert_eq!(
            read(&whole(&parts)),
            [Some(ConntrackReply::Ignored)],
            "{absent}"
        );
    }
}

#[test]
fn ends_of_dumps_and_statuses_are_read() {
    let end = |end| Some(ConntrackReply::End(end));
    assert_eq!(read(&status(0)), [end(Ok(()))]);
    assert_eq!(read(&status(-2)), [end(Err(Errno::ENOENT))]);
    assert_eq!(read(&message(3, 2, &[0; 4])), [end(Ok(()))]);
    assert_eq!(read(&message(3, 2, &[])), [end(Ok(()))]);
    let out_of_memory = (-12_i32).to_ne_bytes();
    assert_eq!(
        read(&message(3, 2, &out_of_memory)),
        [end(Err(Errno::ENOMEM))]
    );
    assert_eq!(read(&message(4, 0, &[])), [end(Err(Errno::ENOBUFS))]);
    assert_eq!(read(&message(1, 0, &[])), [Some(ConntrackReply::Ignored)]);
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
        assert_eq!(read(&bytes), [Some(ConntrackReply::Ignored)], "{length}");
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
