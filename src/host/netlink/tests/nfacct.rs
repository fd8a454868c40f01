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
    let packets = |count| Some(CounterReply::Packets(count));
    assert_eq!(read_reply(&counter(u64::MAX)), packets(u64::MAX));
    assert_eq!(read_reply(&status(0)), Some(CounterReply::Acknowledged));
    let rejected = Some(CounterReply::Rejected(Errno::ENOENT));
    assert_eq!(read_reply(&status(-2)), rejected);
    // Messages of other types are skipped.
    let with_other = [message(1, 0, &[]), status(-2)].concat();
    assert_eq!(read_reply(&with_other), rejected);
    let with_other = [message(0x100, 0, &[9; 5]), counter(3)].concat();
    assert_eq!(read_reply(&with_other), packets(3));
    // The type may have a flag for the encoding of the value.
    let marked = [vec![0; 4], attribute(0x4002, &5_u64.to_be_bytes())].concat();
    assert_eq!(read_reply(&message(0x700, 0, &marked)), packets(5));
}
