//! The bytes of notifications.

use super::super::netlink::{attribute, message, text};
use super::*;

/// A message of nftables as the kernel sends it for a transaction of that port.
fn notification(kind: u16, family: u8, port: u32, texts: &[(u16, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(
        &mut bytes,
        NFNL_SUBSYS_NFTABLES | kind,
        0,
        family,
        |bytes| {
            for (attribute, value) in texts {
                text(bytes, *attribute, value);
            }
        },
    );
    bytes[12..16].copy_from_slice(&port.to_ne_bytes());
    bytes
}

fn read(bytes: &[u8]) -> Vec<NftEvent<'_>> {
    events(IpFamily::V4, bytes).collect()
}

#[test]
fn a_transaction_names_its_chains_and_its_program() {
    let mut datagram = notification(8, 2, 77, &[(1, "nat"), (2, "KUBE-SERVICES")]);
    datagram.extend(notification(3, 2, 77, &[(1, "filter"), (3, "KUBE-X")]));
    datagram.extend(notification(2, 2, 77, &[(1, "mangle")]));
    let mut generation = Vec::new();
    message(&mut generation, NFNL_SUBSYS_NFTABLES | 15, 0, 0, |bytes| {
        attribute(bytes, NFTA_GEN_ID, &9_u32.to_be_bytes());
        text(bytes, NFTA_GEN_PROC_NAME, "nft");
    });
    datagram.extend(&generation);
    let kinds: Vec<_> = read(&datagram)
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert_eq!(
        kinds,
        [
            NftEventKind::Chain(Table::Nat, "KUBE-SERVICES"),
            NftEventKind::Chain(Table::Filter, "KUBE-X"),
            NftEventKind::Table(Table::Mangle),
            NftEventKind::Generation { program: "nft" },
        ]
    );
    assert_eq!(read(&datagram)[0].port, 77);
    let answer = messages(&generation).next().unwrap().unwrap();
    assert_eq!(generation_of(&answer), Some(9));
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
        assert_eq!(read(&other), [], "{other:?}");
    }
}
