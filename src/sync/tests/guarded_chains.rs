//! Findings of a check of fixed chains and jumps, and the syncs that follow.

use std::collections::BTreeSet;
use std::time::Duration;

use super::compare::{edit, scopes};
use super::syncer::{service, synced};
use super::*;
use crate::clock::instant;
use crate::host::{Fake, Fault};
use crate::rules::Table;
use crate::sync::drift_detection::{GuardedChainMonitor, TABLES};
use crate::sync::kernel::GuardedChainFindings;

const PERIOD: Duration = Duration::from_secs(30);

struct CheckedKernel {
    syncer: Syncer<Fake>,
    guarded_chains: GuardedChainMonitor,
}

impl CheckedKernel {
    async fn new() -> Self {
        Self {
            syncer: synced().await,
            guarded_chains: GuardedChainMonitor::new(Some(PERIOD), instant()),
        }
    }

    fn kernel(&self) -> &Fake {
        self.syncer.iptables()
    }

    async fn check(&mut self) -> GuardedChainFindings {
        let at = self.guarded_chains.next_check().unwrap();
        let (kernel, options) = (self.syncer.iptables(), self.syncer.applied_options());
        let findings = self
            .guarded_chains
            .check(kernel, options.unwrap(), &TABLES.into(), at)
            .await;
        self.guarded_chains.schedule(&findings, at);
        findings
    }

    fn unreadable(&self) -> Vec<Table> {
        self.guarded_chains.unreadable().iter().copied().collect()
    }
}

fn newly_unreadable(findings: &GuardedChainFindings) -> Vec<Table> {
    let tables = findings.newly_unreadable.iter();
    tables.map(|(table, _)| *table).collect()
}

#[tokio::test]
async fn an_unprintable_rule_is_not_a_flush_and_is_reported_once() {
    let mut checked = CheckedKernel::new().await;
    let in_forward = [(Table::Filter, "FORWARD")];
    checked.kernel().set_unprintable(&in_forward);
    let first = checked.check().await;
    assert_eq!(first.gone, None);
    assert_eq!(newly_unreadable(&first), [Table::Filter]);
    let second = checked.check().await;
    assert_eq!(newly_unreadable(&second), []);
    assert_eq!(checked.unreadable(), [Table::Filter]);
    // Another table is checked as ever, and so is the rest of this one.
    for (table, command) in [
        (Table::Nat, "-F KUBE-MARK-MASQ"),
        (Table::Filter, "-F KUBE-FORWARD"),
        (Table::Filter, "-F OUTPUT"),
        // Jumps in the chain itself are asked for one by one.
        (Table::Filter, "-F FORWARD"),
    ] {
        let before = checked.kernel().rules();
        edit(checked.kernel(), table, &[command]);
        let found = checked.check().await;
        assert!(found.gone.is_none() && found.is_incomplete(), "{command}");
        checked.kernel().set_rules(before);
    }
    checked.kernel().set_unprintable(&[]);
    let last = checked.check().await;
    assert_eq!(
        (last.gone, last.readable_again),
        (None, vec![Table::Filter])
    );
    assert_eq!(checked.unreadable(), []);
}

#[tokio::test]
async fn a_program_that_fails_is_not_a_flushed_table() {
    let mut checked = CheckedKernel::new().await;
    for _ in Table::ALL {
        checked.kernel().inject(Fault::List);
    }
    let findings = checked.check().await;
    assert_eq!(findings.gone, None);
    assert_eq!(newly_unreadable(&findings).len(), 3);
    assert_eq!(checked.unreadable(), Table::ALL);
    let findings = checked.check().await;
    assert_eq!((findings.gone, findings.readable_again.len()), (None, 3));
}

#[tokio::test]
async fn third_party_rules_in_a_fixed_chain_cost_that_chain_and_no_full_restore() {
    let mut checked = CheckedKernel::new().await;
    let before = checked.kernel().rules().to_save_text();
    for (table, command) in [
        (Table::Filter, "-A KUBE-FORWARD -j ACCEPT"),
        (Table::Filter, "-I KUBE-FIREWALL -s 10.9.9.9/32 -j RETURN"),
        (Table::Nat, "-I KUBE-POSTROUTING -s 10.9.9.9/32 -j ACCEPT"),
    ] {
        edit(checked.kernel(), table, &[command]);
        let findings = checked.check().await;
        let [edited] = findings.due_rewrites[..] else {
            panic!("{command}: {findings:?}");
        };
        assert_eq!((findings.gone, edited.is_back), (None, false), "{command}");
        let applied = checked.syncer.kernel.record_mut().unwrap();
        applied.add_due_fixed_chain(edited.chain);
        let outcome = checked.syncer.once(&[]).await;
        assert_eq!(scopes(&outcome), [Scope::Partial]);
        let payloads = checked.kernel().take_payloads();
        let [payload] = &payloads[..] else {
            panic!("{payloads:?}");
        };
        let (_, chain) = edited.chain;
        assert!(payload.starts_with(&format!("*{table}\n:{chain} - [0:0]\n-A {chain} ")));
        assert_eq!(payload.matches("- [0:0]").count(), 1, "{payload}");
        assert_eq!(checked.kernel().rules().to_save_text(), before, "{command}");
        assert_eq!(checked.check().await.due_rewrites, []);
    }
    // Nothing of it is written twice.
    checked.syncer.tracker.apply(service(2, true));
    checked.syncer.once(&[]).await;
    let payload = checked.kernel().take_payloads().concat();
    assert!(
        !payload.contains("KUBE-FORWARD") && payload.contains("ns/2"),
        "{payload}"
    );
}

#[tokio::test]
async fn a_failed_check_does_not_reset_the_wait_between_rewrites() {
    let mut checked = CheckedKernel::new().await;
    let before = checked.kernel().rules();
    let command = "-A KUBE-FORWARD -j ACCEPT";
    edit(checked.kernel(), Table::Filter, &[command]);
    let [first] = checked.check().await.due_rewrites[..] else {
        panic!("not found");
    };
    checked.kernel().set_rules(before);
    // The wait is over when the next check runs.
    for _ in Table::ALL {
        checked.kernel().inject(Fault::List);
    }
    assert_eq!(checked.check().await.due_rewrites, []);
    edit(checked.kernel(), Table::Filter, &[command]);
    let [second] = checked.check().await.due_rewrites[..] else {
        panic!("not found");
    };
    assert!(
        second.is_back && second.wait == 2 * first.wait,
        "{second:?}"
    );
}

/// Every unprintable rule is a third-party one, so the chain can be rewritten without a read.
#[tokio::test]
async fn an_unprintable_fixed_chain_is_rewritten() {
    let mut checked = CheckedKernel::new().await;
    let chain = (Table::Nat, "KUBE-MARK-MASQ");
    checked.kernel().set_unprintable(&[chain]);
    let findings = checked.check().await;
    let edited: BTreeSet<_> = findings
        .due_rewrites
        .iter()
        .map(|edited| edited.chain)
        .collect();
    assert_eq!((findings.gone, edited), (None, [chain].into()));
    // The table is as good as readable: what cannot be printed is about to be gone.
    assert_eq!(checked.unreadable(), []);
    // While the rule is put back again and again, that is done ever less often.
    let mut due = 0;
    for _ in 0..120 {
        due += checked.check().await.due_rewrites.len();
    }
    assert!((5..=8).contains(&due), "{due} in an hour");
}
