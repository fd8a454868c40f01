//! Recognition of our own transactions.

use super::*;

fn transaction(port: u32, program: &str) -> NftTransaction {
    let mut change = ForeignChange::default();
    change.touch(Table::Nat, "KUBE-SERVICES");
    change.by(program);
    NftTransaction { port, change }
}

fn ours() -> OwnRestore {
    OwnRestore {
        process: Some(100),
        tables: vec![Table::Filter, Table::Nat],
        is_applied: true,
        has_waited: false,
    }
}

#[test]
fn a_restore_is_recognized_by_its_process() {
    let mixed = [
        transaction(100, "iptables-nft-re"),
        transaction(7, "nft"),
        transaction(100, "iptables-nft-re"),
    ];
    assert_eq!(ours().port(&mixed), Some(100));
    assert_eq!(ours().port(&mixed[..2]), Some(100));
}

#[test]
fn a_restore_started_by_a_script_is_recognized_by_its_transactions() {
    let program = "iptables-nft-re";
    let by_script = [
        transaction(101, program),
        transaction(7, "nft"),
        transaction(101, program),
    ];
    assert_eq!(ours().port(&by_script), Some(101));
    // An unchanged table has no transaction, and those of the other family are empty.
    let mut other_family = transaction(9, "ip6tables-nft-r");
    other_family.change.tables.clear();
    let fewer = [transaction(101, program), other_family];
    assert_eq!(ours().port(&fewer), Some(101));
    // Two similar ones both count as foreign: a superfluous check does no harm.
    let alike = [transaction(5, program), transaction(6, program)];
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
