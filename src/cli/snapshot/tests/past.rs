//! Law of the history: the rules that are rebuilt for a moment are those that the daemon had
//! recorded then, or an error.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use prometheus::Registry;
use tempfile::TempDir;

use super::*;
use crate::clock::instant;
use crate::history::{HistoryLog, HistoryThread, HistoryWriter};
use crate::host::{Fake, Fault, Poison};
use crate::sync::tests::report::ReportedMetrics;
use crate::sync::tests::search::endpoint;
use crate::sync::tests::syncer::{service, syncer};
use crate::sync::{FullReason, Reporter, SyncResult, Syncer};
use crate::telemetry::HistoryMetrics;

/// A daemon with a history, and what it had recorded at each moment.
struct Daemon {
    syncer: Syncer<Fake>,
    reporter: Reporter,
    writer: HistoryWriter,
    thread: HistoryThread,
    folder: TempDir,
    failed_syncs: u32,
    /// Records were lost, and none was written since.
    is_lossy: bool,
    moments: Vec<Moment>,
}

struct Moment {
    at: Timestamp,
    /// `None` after a failed sync.
    recorded: Option<RuleSet>,
}

fn wall_clock() -> Timestamp {
    Timestamp::now()
}

fn reporter(writer: HistoryWriter) -> Reporter {
    let [reporter, _] = ReportedMetrics::new().reporters;
    Reporter {
        history: Some(HistoryLog::new(writer, IpFamily::V4)),
        ..reporter
    }
}

impl Daemon {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let state = parent.path().join("state");
        fs::create_dir(&state).unwrap();
        let metrics = HistoryMetrics::register(&Registry::new()).unwrap();
        let (writer, thread) = HistoryWriter::with_thread(state, metrics, wall_clock());
        Self {
            syncer: syncer(instant, Vec::new()),
            reporter: reporter(writer.clone()),
            writer,
            thread,
            folder: parent,
            failed_syncs: 0,
            is_lossy: false,
            moments: Vec::new(),
        }
    }

    /// A new process, for which all of the cluster is new.
    fn restart(&mut self, services: &[u8]) {
        let kernel = self.syncer.iptables().rules();
        self.syncer = syncer(instant, Vec::new());
        self.syncer.iptables().set_rules(kernel);
        for number in services {
            self.syncer.tracker.apply(service(*number, true));
        }
        let later = wall_clock() + Duration::from_secs(self.moments.len() as u64);
        self.reporter = reporter(self.writer.restarted(later));
        self.failed_syncs = 0;
    }

    /// Another program changes rules, which a comparison finds.
    async fn change_rules(&mut self, command: &str) {
        let mut rules = self.syncer.iptables().rules();
        // The chain may not exist.
        if rules.apply(&format!("*nat\n{command}\nCOMMIT\n")).is_ok() {
            self.syncer.iptables().set_rules(rules);
            self.syncer.verify().await;
        }
    }

    async fn sync(&mut self) {
        let outcome = self.syncer.once(&[]).await;
        self.failed_syncs = match outcome.result() {
            SyncResult::Applied => 0,
            SyncResult::Failed => self.failed_syncs + 1,
        };
        let retry = (self.failed_syncs, Duration::ZERO);
        self.reporter
            .finished(&outcome, &self.syncer.tracker, instant(), retry);
        // It takes no time, so that no pause follows.
        let started = instant();
        self.reporter.record_checkpoint(&self.syncer, || started);
    }

    /// Writes the records, or loses them.
    fn write(&mut self, is_disk_gone: bool) {
        let [here, away] = ["state", "away"].map(|name| self.folder.path().join(name));
        if is_disk_gone {
            fs::rename(&here, &away).unwrap();
        }
        let count = self.thread.write_queued();
        if is_disk_gone {
            fs::rename(&away, &here).unwrap();
        }
        self.is_lossy = is_disk_gone || (self.is_lossy && count == 0);
    }

    fn note_moment(&mut self) {
        let mut text = Vec::new();
        let is_known = self
            .syncer
            .write_applied(|piece| text.extend_from_slice(piece));
        let is_known = is_known && self.failed_syncs == 0;
        let text = String::from_utf8(text).unwrap();
        self.moments.push(Moment {
            at: wall_clock(),
            recorded: is_known.then(|| RuleSet::parse(&text).unwrap()),
        });
    }
}

impl Daemon {
    /// Lets something happen, and syncs. Returns whether records may be lost.
    async fn step(&mut self, dice: &mut fastrand::Rng, services: &mut BTreeSet<u8>) -> bool {
        for _ in 0..dice.u8(0..4) {
            let number = dice.u8(1..12);
            let is_there = dice.u8(0..4) > 0;
            if is_there {
                services.insert(number);
            } else {
                services.remove(&number);
            }
            let changes = [service(number, is_there), endpoint(number, dice.u8(1..5))];
            for change in changes {
                self.syncer.tracker.apply(change);
            }
        }
        match dice.u8(0..20) {
            // Lost records before a restart cannot be found.
            0 if !self.is_lossy => self.restart(&services.iter().copied().collect::<Vec<_>>()),
            1 => self.syncer.force_full(FullReason::Flushed),
            2 => self.syncer.iptables().inject(Fault::Locked),
            3 => self.syncer.iptables().inject(Fault::LockedAfterFirst),
            4 => {
                for _ in 0..2 {
                    self.syncer.iptables().inject(Fault::Restore);
                }
            }
            5 => {
                let jump = "-D PREROUTING -m comment --comment \"kubernetes service portals\" \
                            -j KUBE-SERVICES";
                self.change_rules(jump).await;
            }
            6 => self.change_rules("-F KUBE-SERVICES").await,
            7 => {
                let poison = format!("10.0.{}.", dice.u8(1..12));
                let poisons = [(&*poison, Poison::Line)];
                self.syncer.iptables().set_poisons(&poisons);
            }
            8 => self.syncer.iptables().set_poisons(&[]),
            _ => {}
        }
        self.sync().await;
        dice.u8(0..20) == 0
    }
}

/// Lines that only one of two texts has.
fn differing_lines(past: &str, recorded: &str) -> Vec<String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (past, recorded) = (lines(past), lines(recorded));
    past.symmetric_difference(&recorded).cloned().collect()
}

#[tokio::test]
async fn the_rules_of_a_moment_are_those_recorded_then() {
    let (mut known, mut unknown) = (0, 0);
    for seed in 0..SEEDS {
        let mut daemon = Daemon::new();
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut services = BTreeSet::from([1]);
        let mut losses = BTreeSet::new();
        for step in 0..60 {
            // A loss is found by what is written after it.
            let is_disk_gone = daemon.step(&mut dice, &mut services).await && step < 50;
            daemon.write(is_disk_gone);
            daemon.note_moment();
            if is_disk_gone {
                losses.insert(step);
            }
        }
        let folder = daemon.folder.path().join("state");
        for (step, moment) in daemon.moments.iter().enumerate() {
            let Some(recorded) = &moment.recorded else {
                continue;
            };
            match RuleSnapshot::past(&folder, moment.at) {
                Ok(past) => {
                    let (past, recorded) = (past.rules.v4.to_save_text(), recorded.to_save_text());
                    let differing = differing_lines(&past, &recorded);
                    assert!(past == recorded, "seed {seed}, step {step}: {differing:#?}");
                    known += 1;
                }
                Err(error) => {
                    // The first write after a loss makes a checkpoint due. Before it, it is not
                    // known when the rules changed.
                    let mut near = losses.range(step.saturating_sub(NEAR)..=step + NEAR);
                    assert!(near.next().is_some(), "seed {seed}, step {step}: {error}");
                    unknown += 1;
                }
            }
        }
    }
    assert!(known > 4 * unknown && unknown > 10, "{known} {unknown}");
}

/// Steps in which at least two records are written.
const NEAR: usize = 5;

/// Number of random histories.
const SEEDS: u64 = 12;
