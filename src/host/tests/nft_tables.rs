//! The bytes of questions and answers about nftables.

use std::os::fd::{AsRawFd, OwnedFd};

use super::super::netlink::with_socket;
use super::*;

#[test]
fn requests_are_written_as_the_kernel_reads_them() {
    let names = [(NFTA_TABLE_NAME, "t")];
    let get = request(NFT_MSG_GETTABLE, NLM_F_REQUEST, IpFamily::V6, &names);
    let mut expected = vec![28, 0, 0, 0, 1, 10, 1, 0];
    expected.extend([0; 8]);
    expected.extend([10, 0, 0, 0]);
    expected.extend([6, 0, 1, 0, b't', 0, 0, 0]);
    assert_eq!(get, expected);

    let mut bytes = Vec::new();
    batch(&mut bytes, NFNL_SUBSYS_NFTABLES, |bytes| bytes.extend(&get));
    let edge = |kind: u8| {
        let mut edge = vec![20, 0, 0, 0, kind, 0, 1, 0];
        edge.extend([0; 8]);
        edge.extend([0, 0, 0, 10]);
        edge
    };
    assert_eq!(bytes, [edge(0x10), get, edge(0x11)].concat());
}

#[test]
fn answers_are_read() {
    let refusal = |code: i32| {
        let mut bytes = vec![36, 0, 0, 0, 2, 0, 0, 0];
        bytes.extend([0; 8]);
        bytes.extend(code.to_ne_bytes());
        bytes.extend([0; 16]);
        bytes
    };
    assert_eq!(answer(&refusal(0)), Some(Ok(())));
    assert_eq!(answer(&refusal(-2)), Some(Err(Errno::ENOENT)));
    let found = request(0, 0, IpFamily::V4, &[(NFTA_TABLE_NAME, TABLE)]);
    assert_eq!(answer(&found), Some(Ok(())));
    for whole in [refusal(-2), found] {
        for length in 0..whole.len() {
            assert_eq!(answer(&whole[..length]), None, "{length}");
        }
    }
}

/// The end of a socket waits for a restore under way, and whoever asks is the whole daemon.
#[test]
fn what_is_not_there_costs_no_socket() {
    let identity = || {
        let number = |socket: &OwnedFd| Ok(format!("/proc/self/fd/{}", socket.as_raw_fd()));
        std::fs::read_link(with_socket(number).unwrap()).unwrap()
    };
    let before = identity();
    assert!(!has_nft_chain(
        IpFamily::V4,
        "no such table",
        "no such chain"
    ));
    assert!(!has_nft_table(IpFamily::V6).unwrap_or_default());
    assert_eq!(identity(), before);
}
