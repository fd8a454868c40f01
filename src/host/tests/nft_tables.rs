//! The bytes of questions and answers about nftables.

use super::*;

#[test]
fn requests_are_written_as_the_kernel_reads_them() {
    let get = table(NFT_MSG_GETTABLE, NLM_F_REQUEST, IpFamily::V6, "t");
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
    let found = table(0, 0, IpFamily::V4, "kube-proxy");
    assert_eq!(answer(&found), Some(Ok(())));
    for whole in [refusal(-2), found] {
        for length in 0..whole.len() {
            assert_eq!(answer(&whole[..length]), None, "{length}");
        }
    }
}
