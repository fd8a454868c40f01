//! Recognition of our own transactions.

use super::*;
use crate::rules::ChainSet;

const IPTABLES: &str = "iptables-nft-re";

/// Returns a transaction of a sender in our pid namespace.
fn transaction(port: u32, program: &str) -> NftTransaction {
    of_process(port, port.wrapping_add(70_000), program)
}

fn of_process(port: u32, process: u32, program: &str) -> NftTransaction {
    let mut change = ForeignChange::default();
    change.touch(Table::Nat, "KUBE-SERVICES");
    change.by(program);
    let sender = NftSender {
        port,
        process: Some(process),
    };
    NftTransaction { sender, change }
}

fn ours() -> OwnRestore {
    OwnRestore {
        process: Some(100),
        tables: vec![Table::Filter, Table::Nat],
        is_applied: true,
    }
}

impl OwnRestore {
    /// Returns the port of the sender that the restore is, in a container.
    fn port(&self, transactions: &[NftTransaction]) -> Option<u32> {
        let sender = self.sender(transactions, PidNamespace::Other);
        sender.map(|sender| sender.port)
    }
}

#[test]
fn a_program_with_the_same_id_in_another_container_is_foreign() {
    let ours_and_foreign = [71_000, 9].map(|process| of_process(100, process, IPTABLES));
    assert_eq!(ours().port(&ours_and_foreign), None);
    // More transactions than the payload has tables.
    let foreign = [100; 3].map(|port| transaction(port, IPTABLES));
    assert_eq!(ours().port(&foreign), None);
    // The other socket was opened first.
    let chosen = [
        transaction(100, "nft"),
        transaction(u32::MAX - 4096, IPTABLES),
    ];
    assert_eq!(ours().port(&chosen), None);
    assert_eq!(ours().port(&chosen[..1]), Some(100));
    // On the host itself, ids are unique.
    let process = |transactions: &[NftTransaction]| {
        let sender = ours().sender(transactions, PidNamespace::Initial);
        sender.and_then(|sender| sender.process)
    };
    let on_host = [
        of_process(u32::MAX - 4096, 100, IPTABLES),
        of_process(100, 9, IPTABLES),
    ];
    assert_eq!(process(&on_host), Some(100));
    assert_eq!(process(&[transaction(100, "nft")]), None);
}

#[test]
fn a_restore_is_recognized_by_its_process() {
    let mixed = [(100, IPTABLES), (7, "nft"), (100, IPTABLES)];
    let mixed = mixed.map(|(port, program)| transaction(port, program));
    assert_eq!(ours().port(&mixed), Some(100));
    assert_eq!(ours().port(&mixed[..2]), Some(100));
}

#[test]
fn a_restore_started_by_a_script_is_recognized_by_its_transactions() {
    let by_script = [(101, IPTABLES), (7, "nft"), (101, IPTABLES)];
    let by_script = by_script.map(|(port, program)| transaction(port, program));
    assert_eq!(ours().port(&by_script), Some(101));
    // An unchanged table has no transaction, and those of the other family are empty.
    let mut other_family = transaction(9, "ip6tables-nft-r");
    other_family.change.chains = ChainSet::default();
    let fewer = [transaction(101, IPTABLES), other_family];
    assert_eq!(ours().port(&fewer), Some(101));
    // Two similar ones both count as foreign: a superfluous check does no harm.
    let alike = [5, 6].map(|port| transaction(port, IPTABLES));
    let one_table = OwnRestore {
        tables: vec![Table::Nat],
        ..ours()
    };
    assert_eq!(one_table.port(&alike), None);
    assert_eq!(ours().port(&alike), None);
    // A restore that failed may have done nothing.
    let failed = OwnRestore {
        is_applied: false,
        ..ours()
    };
    assert_eq!(failed.port(&by_script), None);
    let by_nft = [transaction(7, "nft"), transaction(7, "nft")];
    assert_eq!(ours().port(&by_nft), None);
}

#[test]
fn the_deleted_chains_of_one_transaction_have_a_limit() {
    let mut state = NftWatchState::default();
    let mut removed = |port, count: usize| {
        for number in 0..count {
            let name = format!("CHAIN-{number}");
            let kind = NftEventKind::DeletedChain(Table::Nat, &name);
            assert!(state.transaction(&NftEvent { port, kind }).is_none());
        }
        let kind = NftEventKind::Generation {
            program: "nft",
            process: None,
        };
        let ended = state.transaction(&NftEvent { port, kind }).unwrap();
        ended.change.removals[0].chains.len()
    };
    assert_eq!(removed(1, 10), 10);
    assert_eq!(removed(1, MOST_DELETED + 10), MOST_DELETED);
}
