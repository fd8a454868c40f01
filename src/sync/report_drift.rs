//! Reports rules that other programs changed, their repairs, and tables and counters that cannot be
//! used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tracing::{debug, info, warn};

use super::kernel::{Compared, Drift, DriftKind, DueRewrite, GuardedChainFindings, MOST_NAMES};
use super::outcome::Notices;
use super::report::{Reporter, milliseconds};
use crate::clock;
use crate::events::Event;
use crate::host::{ChainRemoval, RunError};
use crate::net::IpFamily;
use crate::rules::Table;
use crate::ruleset::{ChainRole, is_proxy_chain};
use crate::status::{DriftRecord, Verification};
use crate::telemetry::on_one_line;
use crate::text::first_of;

impl Reporter {
    /// Reports the differences between the kernel and the applied state.
    pub(super) fn compared(&self, compared: &Compared<'_>) {
        let (family, drift) = (self.family, compared.drift);
        let (trigger, metrics) = (compared.trigger.as_str(), &self.metrics.drift);
        metrics.checked(family, trigger, drift.is_empty());
        if compared.is_verification {
            match compared.failure {
                None => metrics.verified(family, clock::wall()),
                Some(_) => metrics.check_failed(family),
            }
        }
        for ((table, kind), chains) in &drift.counts {
            metrics.drifted(family, table.as_str(), kind.as_str(), *chains);
        }
        // Those whose last repair was delayed, not those of which the next one would be.
        metrics.contested(family, compared.delayed_chains);
        if !drift.is_empty() && !compared.repair_delay.is_zero() {
            let note = contest_note(family, &self.node_name, drift);
            self.recorder.record(Event::RulesContested(note));
        }
        if let Some(cause) = compared.failure {
            log_failed_reading(family, cause, compared);
        }
        self.log_compared(compared);
        log_drift(family, compared);
    }

    /// Notes a comparison for the pages.
    fn log_compared(&self, compared: &Compared<'_>) {
        let (at, drift) = (clock::now(), compared.drift);
        self.log.update(|status| {
            if compared.is_verification && compared.failure.is_none() {
                let is_clean = drift.is_empty();
                status.verification = Some(Verification { at, is_clean });
            }
            if !drift.is_empty() {
                status.drifted(drift_record(drift, at));
            }
        });
        if let Some(history) = &self.history
            && !drift.is_empty()
        {
            history.drifted(drift_record(drift, at));
        }
    }

    /// Reports the repair of rules that another program changed.
    pub(super) fn repaired(&self, after: Duration) {
        self.metrics.drift.repaired(self.family, after);
        info!(family = %self.family, after_ms = milliseconds(after), "repair complete");
    }

    /// Reports chains of third parties that another program removed along with those of kube-proxy:
    /// a program that removes only its own chains leaves these alone.
    pub(super) fn removed(&self, removals: &[ChainRemoval]) {
        let family = self.family;
        for ChainRemoval { program, chains } in removals {
            let is_ours = |(table, chain): &&(Table, Box<str>)| is_proxy_chain(*table, chain);
            if !chains.iter().any(|chain| is_ours(&chain)) {
                continue;
            }
            let third_party = chains
                .iter()
                .filter(|(table, chain)| ChainRole::of(*table, chain) == ChainRole::ThirdParty);
            let mut by_table: BTreeMap<Table, Vec<&str>> = BTreeMap::new();
            for (table, chain) in third_party {
                by_table.entry(*table).or_default().push(chain);
            }
            for (table, names) in by_table {
                self.metrics
                    .drift
                    .third_party_removed(family, table.as_str(), names.len());
                let chains = first_of(names, MOST_NAMES);
                warn!(
                    %family, %table, program, chains,
                    "another program removed chains of third parties along with those of kube-proxy, \
                     and has not added them in the same transaction; unless they are there again, \
                     restart the programs that own them"
                );
            }
        }
    }

    /// Reports what a sync found before and between its restores.
    pub(super) fn notices(&self, notices: &Notices) {
        let family = self.family;
        if let Some(cause) = &notices.no_counter {
            info!(%family, %cause, "cannot create nfacct counters: some packets are not counted");
        }
        for (table, cause) in &notices.newly_unreadable {
            let cause = on_one_line(&cause.to_string());
            warn!(
                %family, %table,
                "stale chains stay in this table, because reading it failed: {cause}; find the rule \
                 or the program that keeps it from being read"
            );
        }
    }

    /// Reports the findings of a check of the guarded chains, and the unreadable tables.
    pub(super) fn guarded_chains_checked(
        &self,
        findings: &GuardedChainFindings,
        unreadable: &BTreeSet<Table>,
    ) {
        self.log.update(|status| {
            let names = unreadable.iter().map(|table| table.as_str().to_owned());
            status.unreadable_tables = names.collect();
        });
        let metrics = &self.metrics.drift;
        for table in Table::ALL {
            let is_unreadable = unreadable.contains(&table);
            metrics.unreadable(self.family, table.as_str(), is_unreadable);
        }
        for DueRewrite {
            chain: (table, _), ..
        } in &findings.due_rewrites
        {
            metrics.chain_repaired(self.family, table.as_str());
        }
        log_checked(self.family, findings);
    }
}

fn drift_record(drift: &Drift, at: Timestamp) -> DriftRecord {
    DriftRecord {
        at,
        chains: drift.counts.values().sum::<usize>() as u64,
        names: drift.chain_names(),
        program: program_names(drift),
    }
}

/// Logs the findings of a check of the guarded chains that are new.
fn log_checked(family: IpFamily, findings: &GuardedChainFindings) {
    for (table, cause) in &findings.newly_unreadable {
        let is_unprintable = matches!(cause, RunError::Unprintable { .. });
        let consequence = if is_unprintable {
            "iptables cannot print all rules of this table because of a third-party rule; until it \
             is removed, jumps are checked one by one"
        } else {
            "check of the rules in this table failed; a flush goes unnoticed until a check succeeds, \
             retrying"
        };
        let cause = on_one_line(&cause.to_string());
        warn!(%family, %table, "{consequence}: {cause}");
    }
    for table in &findings.readable_again {
        info!(%family, %table, "table is readable again");
    }
    if let Some((table, _)) = &findings.gone {
        warn!(
            %family, %table,
            "rules were flushed or deleted by another program, Services may be unreachable; \
             restoring all rules. Find what removes them"
        );
    }
    for DueRewrite {
        chain: (table, chain),
        wait,
        is_back,
    } in &findings.due_rewrites
    {
        let which = if *is_back {
            "third-party rules are back in"
        } else {
            "third-party rules found in"
        };
        warn!(
            %family, %table, chain,
            "{which} a kube-proxy chain; removing them, and again in {wait:?} at the earliest. Find \
             what adds them: such rules belong in chains of their own"
        );
    }
}

/// Logs a failure to read rules. Of the failures in a row, the 1st, 2nd, 4th, 8th and so on are
/// warnings: a table may be unreadable for months.
fn log_failed_reading(family: IpFamily, cause: &RunError, compared: &Compared<'_>) {
    let trigger = compared.trigger.as_str();
    let text = on_one_line(&cause.to_string());
    // `log_checked` logs unprintable rules in built-in chains; those in other chains are in the
    // notices of the next full sync.
    let is_logged = matches!(cause, RunError::Unprintable { .. });
    if compared.failed_readings.is_power_of_two() && !is_logged {
        warn!(
            %family, trigger, failed_readings = compared.failed_readings,
            "reading the rules in the kernel failed, retrying; until it succeeds, changes by other \
             programs may go unnoticed: {text}"
        );
    } else {
        debug!(%family, trigger, "reading the rules in the kernel failed: {text}");
    }
}

/// Logs the differences between the kernel and the applied state, if there are any.
fn log_drift(family: IpFamily, compared: &Compared<'_>) {
    let trigger = compared.trigger.as_str();
    for ((table, kind), chains) in &compared.drift.counts {
        let kind = kind.as_str();
        debug!(%family, trigger, %table, kind, chains, "rules differ from those that were written");
    }
    if compared.drift.is_empty() {
        return;
    }
    let services = compared.drift.service_names();
    if !services.is_empty() {
        warn!(
            %family, trigger, services,
            "recorded rules of Services differ from their rendered ones; rewriting them. Please \
             report this bug of deltaproxy"
        );
    }
    let chains = compared.drift.chain_names();
    let programs = program_names(compared.drift);
    let mut kinds = compared.drift.counts.keys().map(|(_, kind)| *kind);
    if kinds.any(|kind| kind == DriftKind::UnrepairableServiceChains) {
        warn!(
            %family, trigger, programs,
            "most rules differ from those that were written, Services may be unreachable; restoring \
             all rules. Find what changes them"
        );
    }
    if !compared.repair_delay.is_zero() {
        let millis = compared.repair_delay.as_millis();
        let repair_delay = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        warn!(
            %family, trigger, programs, chains,
            "rules changed again by another program; restoring them in {repair_delay:?}, Services \
             may be unreachable until then. Find what changes them: is a second proxy running on \
             this node?"
        );
    } else if !chains.is_empty() {
        info!(
            %family, trigger, programs, chains,
            "rules changed by another program; restoring them"
        );
    }
    // Drift without names is a flushed table, which `log_checked` logs, or in most chains.
}

/// Returns the names of the programs that changed rules; empty if the kernel reports none.
fn program_names(drift: &Drift) -> String {
    let programs = drift.programs.iter().map(String::as_str);
    programs.collect::<Vec<_>>().join(", ")
}

/// Returns the text of the Event about rules that another program changes again and again.
fn contest_note(family: IpFamily, node: &str, drift: &Drift) -> String {
    let mut chains = drift.chain_names();
    if chains.is_empty() {
        let tables = drift.counts.keys().map(|(table, _)| table.as_str());
        let tables: BTreeSet<_> = tables.collect();
        chains = format!("tables {}", Vec::from_iter(tables).join(", "));
    } else {
        chains.insert_str(0, "chains ");
    }
    let programs = program_names(drift);
    let by = if programs.is_empty() {
        "another program".to_owned()
    } else {
        format!("another program ({programs})")
    };
    format!(
        "node {node}: {family} rules are changed again and again by {by}, so repairs wait up to \
         60s: {chains}. Find what changes them: is a second proxy running on this node?"
    )
}
