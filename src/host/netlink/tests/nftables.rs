//! Bytes of nftables requests, replies and notifications.

use std::os::fd::{AsRawFd, OwnedFd};

use super::super::socket::{attribute, nested};
use super::*;
use crate::host::tests::conntrack_bytes::status;

#[test]
fn nftables_requests_are_encoded_for_the_kernel() {
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
fn nftables_replies_are_read() {
    assert_eq!(read_reply(&status(0)), Some(Ok(())));
    assert_eq!(read_reply(&status(-2)), Some(Err(Errno::ENOENT)));
    let found = request(0, 0, IpFamily::V4, &[(NFTA_TABLE_NAME, KUBE_PROXY_TABLE)]);
    assert_eq!(read_reply(&found), Some(Ok(())));
    for whole in [status(-2), found] {
        for length in 0..whole.len() {
            assert_eq!(read_reply(&whole[..length]), None, "{length}");
        }
    }
}

/// Closing a socket waits for the restore under way and would block the daemon.
#[test]
fn queries_for_missing_objects_keep_the_socket_open() {
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

/// Returns a rule with two expressions: a counter, and one of that name with a jump to `chain`.
fn rule(expression: &str, chain: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(&mut bytes, 6, 0, 2, |bytes| {
        text(bytes, NFTA_RULE_TABLE, "filter");
        nested(bytes, NFTA_RULE_EXPRESSIONS, |bytes| {
            element(bytes, "counter", |bytes| attribute(bytes, 1, &[0; 8]));
            element(bytes, expression, |bytes| {
                attribute(bytes, 1, &[0, 0, 0, 0]);
                nested(bytes, NFTA_IMMEDIATE_DATA, |bytes| verdict(bytes, chain));
            });
        });
    });
    bytes
}

fn element(bytes: &mut Vec<u8>, name: &str, data: impl FnOnce(&mut Vec<u8>)) {
    nested(bytes, NFTA_LIST_ELEM, |bytes| {
        text(bytes, NFTA_EXPR_NAME, name);
        nested(bytes, NFTA_EXPR_DATA, data);
    });
}

fn verdict(bytes: &mut Vec<u8>, chain: &str) {
    nested(bytes, NFTA_DATA_VERDICT, |bytes| {
        attribute(bytes, 1, &(-3_i32).to_be_bytes());
        text(bytes, NFTA_VERDICT_CHAIN, chain);
    });
}

fn has_jump_to(bytes: &[u8], chain: &str) -> bool {
    let mut rules = messages(bytes).map_while(|message| message);
    rules.any(|message| jumps_to(&message, chain))
}

#[test]
fn a_jump_is_found_by_its_target_chain() {
    let jump = rule("immediate", "KUBE-FORWARD");
    assert!(has_jump_to(&jump, "KUBE-FORWARD"));
    for other in ["KUBE-FORWAR", "KUBE-FORWARD2", ""] {
        assert!(!has_jump_to(&jump, other), "{other}");
    }
    // Another expression may have a text in the same attribute.
    assert!(!has_jump_to(&rule("log", "KUBE-FORWARD"), "KUBE-FORWARD"));
}

#[test]
fn a_truncated_rule_has_no_jump() {
    let whole = rule("immediate", "KUBE-FORWARD");
    for length in 0..whole.len() {
        assert!(!has_jump_to(&whole[..length], "KUBE-FORWARD"), "{length}");
    }
}

#[test]
fn a_dump_that_a_transaction_interrupts_is_repeated() {
    let dumps_until = |complete: usize| {
        let mut dumps = 0;
        let found = until_complete(|| {
            dumps += 1;
            Ok(if dumps == complete {
                ControlFlow::Break(true)
            } else {
                ControlFlow::Continue(())
            })
        });
        (found, dumps)
    };
    assert_eq!(dumps_until(1), (Ok(true), 1));
    assert_eq!(dumps_until(5), (Ok(true), 5));
    assert_eq!(dumps_until(6), (Err(Errno::EINTR), 5));
}

/// Returns a message as the kernel sends it for a transaction of that port.
fn notification(kind: u16, family: u8, port: u32, texts: &[(u16, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let kind = NFNL_SUBSYS_NFTABLES | kind;
    message(&mut bytes, kind, 0, family, |bytes| {
        for (attribute, value) in texts {
            text(bytes, *attribute, value);
        }
    });
    bytes[12..16].copy_from_slice(&port.to_ne_bytes());
    bytes
}

fn read_events(bytes: &[u8]) -> Vec<NftEvent<'_>> {
    events(IpFamily::V4, bytes).collect()
}

#[test]
fn a_transaction_names_its_chains_and_its_program() {
    let mut datagram = notification(8, 2, 77, &[(1, "nat"), (2, "KUBE-SERVICES")]);
    datagram.extend(notification(3, 2, 77, &[(1, "filter"), (3, "KUBE-X")]));
    datagram.extend(notification(5, 2, 77, &[(1, "nat"), (3, "KUBE-Y")]));
    datagram.extend(notification(2, 2, 77, &[(1, "mangle")]));
    let mut generation = Vec::new();
    message(&mut generation, NFNL_SUBSYS_NFTABLES | 15, 0, 0, |bytes| {
        attribute(bytes, NFTA_GEN_ID, &9_u32.to_be_bytes());
        attribute(bytes, NFTA_GEN_PROC_PID, &70_077_u32.to_be_bytes());
        text(bytes, NFTA_GEN_PROC_NAME, "nft");
    });
    datagram.extend(&generation);
    let kinds = events(IpFamily::V4, &datagram).map(|event| event.kind);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [
            NftEventKind::Chain(Table::Nat, "KUBE-SERVICES"),
            NftEventKind::Chain(Table::Filter, "KUBE-X"),
            NftEventKind::DeletedChain(Table::Nat, "KUBE-Y"),
            NftEventKind::Table(Table::Mangle),
            NftEventKind::Generation {
                program: "nft",
                process: Some(70_077)
            },
        ]
    );
    assert_eq!(read_events(&datagram)[0].port, 77);
    let reply = messages(&generation).next().unwrap().unwrap();
    assert_eq!(generation_of(&reply), Some(9));
}

#[test]
fn other_families_tables_and_bytes_are_ignored() {
    for other in [
        notification(8, 10, 1, &[(1, "nat"), (2, "KUBE-SERVICES")]),
        notification(8, 1, 1, &[(1, "nat"), (2, "KUBE-SERVICES")]),
        notification(8, 2, 1, &[(1, "raw"), (2, "PREROUTING")]),
        notification(9, 2, 1, &[(1, "nat"), (2, "set")]),
        notification(8, 2, 1, &[(1, "nat")]),
        notification(8, 2, 1, &[(1, "nat"), (2, "KUBE-SERVICES")])[..30].to_vec(),
        Vec::new(),
        vec![0; 16],
        vec![0xff; 64],
    ] {
        assert_eq!(read_events(&other), [], "{other:?}");
    }
}
