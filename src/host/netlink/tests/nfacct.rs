//! Bytes of nfacct requests and replies.

use super::*;
use crate::host::tests::conntrack_bytes::{attribute, message, status};

fn counter(packets: u64) -> Vec<u8> {
    let body = [
        vec![0; 4],
        attribute(1, b"shop\0"),
        attribute(2, &packets.to_be_bytes()),
        attribute(3, &77_u64.to_be_bytes()),
    ];
    message(0x700, 0, &body.concat())
}

#[test]
fn nfacct_requests_are_encoded_for_the_kernel() {
    let bytes = Request::Create.encode("shop").unwrap();
    let mut expected = message(0x700, 0, &[vec![0; 4], attribute(1, b"shop\0")].concat());
    expected[6..8].copy_from_slice(&0x405_u16.to_ne_bytes());
    assert_eq!(bytes, expected);

    let bytes = Request::Get.encode("shop").unwrap();
    expected[4..8].copy_from_slice(&[0x701_u16.to_ne_bytes(), 1_u16.to_ne_bytes()].concat());
    assert_eq!(bytes, expected);
}

#[test]
fn invalid_counter_names_are_rejected_before_sending() {
    for name in ["", "a\0b", &"x".repeat(32)] {
        assert_eq!(Request::Get.encode(name), Err(Errno::EINVAL), "{name:?}");
    }
    let bytes = Request::Get.encode(&"x".repeat(31)).unwrap();
    assert_eq!((bytes.len(), bytes.last()), (56, Some(&0)));
}

#[test]
fn nfacct_replies_are_read() {
    assert_eq!(
        read_reply(&counter(u64::MAX)),
        Some(CounterReply::Packets(u64::MAX))
    );
    assert_eq!(read_reply(&status(0)), Some(CounterReply::Acknowledged));
    let rejected = Some(CounterReply::Rejected(Errno::ENOENT));
    assert_eq!(read_reply(&status(-2)), rejected);
    // Messages of other types are skipped.
    assert_eq!(
        read_reply(&[message(1, 0, &[]), status(-2)].concat()),
        rejected
    );
    assert_eq!(
        read_reply(&[message(0x100, 0, &[9; 5]), counter(3)].concat()),
        Some(CounterReply::Packets(3))
    );
    // The type may have a flag for the encoding of the value.
    let marked = [vec![0; 4], attribute(0x4002, &5_u64.to_be_bytes())].concat();
    assert_eq!(
        read_reply(&message(0x700, 0, &marked)),
        Some(CounterReply::Packets(5))
    );
}

#[test]
fn truncated_replies_are_not_read() {
    let number_ends = counter(3).len() - attribute(3, &[0; 8]).len();
    for whole in [status(-2), counter(3)] {
        for length in 0..whole.len() {
            assert_eq!(read_reply(&whole[..length]), None, "{length}");
            // Truncated with a header that has the shorter length.
            let mut shortened = whole[..length].to_vec();
            if let Some(header) = shortened.first_chunk_mut() {
                *header = u32::try_from(length).unwrap().to_ne_bytes();
            }
            let is_enough = if whole == counter(3) {
                length >= number_ends
            } else {
                length >= 20
            };
            assert_eq!(read_reply(&shortened).is_some(), is_enough, "{length}");
        }
    }
    assert_eq!(read_reply(&status(i32::MIN)), None);
}

#[test]
fn invalid_lengths_end_the_parsing() {
    for length in [0_u32, 3, 15, u32::MAX] {
        let mut bytes = message(1, 0, &[]);
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes.extend(status(0));
        assert_eq!(read_reply(&bytes), None, "{length}");
    }
    for length in [0_u16, 3, u16::MAX] {
        let mut body = vec![0; 4];
        body.extend(attribute(1, b"shop\0"));
        body[4..6].copy_from_slice(&length.to_ne_bytes());
        body.extend(attribute(2, &[0; 8]));
        assert_eq!(read_reply(&message(0x700, 0, &body)), None, "{length}");
    }
}
