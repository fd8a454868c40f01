//! Main loop of a family, in simulated time.
//!
//! Upstream: `pkg/proxy/runner/bounded_frequency_runner_test.go` (v1.37)

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::compare::edit;
use super::report::ReportedMetrics;
use super::search::endpoint;
use super::syncer::{service, syncer_options};
use super::*;
use crate::host::{
    ChangeSource, CounterError, Fake, Fault, ForeignChange, Iptables, ListedChains, Poison,
    RestoreError, Restored, RunError,
};
use crate::model::{Change, Kind, SourceChange};
use crate::rules::{Backend, Payload, Table};
use crate::telemetry::Metrics;
use crate::tracker::Tracker;
use crate::watch::{ChangeSenders, change_channels};

/// Fake kernel that records the times of restores and listings.
#[derive(Clone)]
struct Kernel {
    fake: Rc<Fake>,
    began: Instant,
    restores: Rc<RefCell<Vec<u64>>>,
    lists: Rc<RefCell<Vec<u64>>>,
    /// Listings never end.
    list_hangs: Rc<Cell<bool>>,
    /// Time that it takes to read a table.
    save_takes: Rc<Cell<Duration>>,
    foreign_changes: Rc<RefCell<VecDeque<ForeignChange>>>,
    has_changed: Rc<Notify>,
    generation: Rc<Cell<Option<u32>>>,
    metrics: Rc<Metrics>,
}

impl Kernel {
    fn new(metrics: Metrics) -> Self {
        Self {
            fake: Rc::default(),
            began: Instant::now(),
            restores: Rc::default(),
            lists: Rc::default(),
            list_hangs: Rc::default(),
            save_takes: Rc::default(),
            foreign_changes: Rc::default(),
            has_changed: Rc::default(),
            generation: Rc::default(),
            metrics: Rc::new(metrics),
        }
    }

    /// The number of reported repairs.
    fn repairs(&self) -> u64 {
        let families = self.metrics.registry.gather();
        let mut families = families.iter();
        let name = "deltaproxy_drift_repair_duration_seconds";
        let repairs = families.find(|family| family.name() == name);
        repairs.map_or(0, |repairs| {
            repairs.get_metric()[0].get_histogram().get_sample_count()
        })
    }

    /// Another program runs a command in nat, without a report.
    fn edit(&self, command: &str) {
        edit(&self.fake, Table::Nat, &[command]);
    }

    fn report_change(&self, chain: &str) {
        let mut change = ForeignChange::default();
        change.touch(Table::Nat, chain);
        self.foreign_changes.borrow_mut().push_back(change);
        self.has_changed.notify_one();
    }

    /// Another program changes a fixed chain and the chain of the one Service, and the kernel drops
    /// the events about it.
    fn lose_events(&self) {
        self.edit("-F KUBE-MARK-MASQ");
        self.flush_service_chain();
        let unknown = ForeignChange::unknown(ChangeSource::LostEvents, Table::ALL);
        self.foreign_changes.replace([unknown].into());
    }

    /// Another program flushes the chain of the one Service.
    fn flush_service_chain(&self) {
        let text = self.fake.rules().to_save_text();
        let mut names = text.lines().filter_map(|line| line.strip_prefix(':'));
        let chain = names.find(|line| line.starts_with("KUBE-SVC-")).unwrap();
        let chain = chain.split(' ').next().unwrap();
        self.edit(&format!("-F {chain}"));
        self.report_change(chain);
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap()
    }
}

impl Iptables for Kernel {
    async fn restore(
        &self,
        payload: &mut dyn Payload,
        deadline: Option<Duration>,
    ) -> Result<Restored, RestoreError> {
        self.restores.borrow_mut().push(self.milliseconds());
        self.fake.restore(payload, deadline).await
    }

    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        sleep(self.save_takes.get()).await;
        self.fake.save(table, each).await
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.lists.borrow_mut().push(self.milliseconds());
        if self.list_hangs.get() {
            pending::<()>().await;
        }
        self.fake.list(table, chains).await
    }

    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        self.fake.has(table, chain, rule).await
    }

    async fn make_counter(&self, name: &str) -> Result<(), CounterError> {
        self.fake.make_counter(name).await
    }

    fn generation(&self) -> Option<u32> {
        self.generation.get()
    }

    async fn changed(&self) -> ForeignChange {
        loop {
            let change = self.foreign_changes.borrow_mut().pop_front();
            match change {
                Some(change) => return change,
                None => self.has_changed.notified().await,
            }
        }
    }
}

/// Event at a millisecond.
enum Step {
    /// All is listed, and there is nothing.
    Listed,
    /// A Service comes.
    Comes(u8),
    /// The Service has an endpoint.
    Ready(u8),
    /// The next restore fails.
    Broken,
    /// The next table cannot be read.
    SaveFails,
    /// From now on payloads with this text are rejected.
    Poisoned(&'static str),
    /// No listing ends from now on.
    ListHangs,
    /// From now on it takes so many seconds to read a table.
    SaveTakes(u64),
    /// Another program flushes a chain of the only Service.
    Flushed,
    /// Another program changes two chains, and the events about it are lost.
    EventsLost,
    /// Another program runs a command in nat, without a report.
    Edited(&'static str),
    /// The kernel reports a change of this chain.
    Reported(&'static str),
    /// No program changes rules any more, and the next table that is read has one that cannot be
    /// printed.
    Unprintable,
}
use Step::{
    Broken, Comes, Edited, EventsLost, Flushed, ListHangs, Listed, Poisoned, Ready, Reported,
    SaveFails, SaveTakes, Unprintable,
};

fn take(step: &Step, kernel: &Kernel, changes: &ChangeSenders) {
    match step {
        Listed => {
            for kind in Kind::ALL {
                changes.send(IpFamily::V4, SourceChange::Listing(kind));
                changes.send(IpFamily::V4, Change::Listed(kind));
            }
        }
        Comes(number) => changes.send(IpFamily::V4, service(*number, true)),
        Ready(number) => changes.send(IpFamily::V4, endpoint(*number, 9)),
        Broken => kernel.fake.inject(Fault::Restore),
        SaveFails => kernel.fake.inject(Fault::Save),
        Poisoned(text) => kernel.fake.set_poisons(&[(*text, Poison::Line)]),
        ListHangs => kernel.list_hangs.set(true),
        SaveTakes(seconds) => kernel.save_takes.set(Duration::from_secs(*seconds)),
        Flushed => kernel.flush_service_chain(),
        EventsLost => kernel.lose_events(),
        Edited(command) => kernel.edit(command),
        Reported(chain) => kernel.report_change(chain),
        Unprintable => {
            kernel.generation.set(Some(7));
            kernel.fake.inject(Fault::Unprintable);
        }
    }
}

/// Steps of a node that has a Service with an endpoint.
fn served<const N: usize>(steps: [(u64, Step); N]) -> Vec<(u64, Step)> {
    let first = [(0, Listed), (0, Comes(1)), (0, Ready(1))];
    first.into_iter().chain(steps).collect()
}

/// The milliseconds of all restores until `end`, with a gap of a second, retries within five, and
/// a full sync after ten without any.
async fn restores(steps: &[(u64, Step)], end: u64) -> Vec<u64> {
    run(steps, Intervals::default(), end).await.restores.take()
}

fn pacer() -> Pacer {
    let options = PacerOptions {
        gap: Gap::Fixed(Duration::from_secs(1)),
        longest_retry: Duration::from_secs(5),
        longest_idle: Duration::from_secs(10),
    };
    Pacer::new(options, Backend::Nft)
}

/// How often rules are checked and verified.
#[derive(Default)]
struct Intervals {
    check: Option<Duration>,
    verify: Option<Duration>,
}

/// Runs the steps until `end`, with checks and verifications in these intervals.
async fn run(steps: &[(u64, Step)], intervals: Intervals, end: u64) -> Kernel {
    let ReportedMetrics {
        metrics,
        reporters: [reporter, _],
    } = ReportedMetrics::new();
    let (senders, receivers) = change_channels(Some(&metrics.sync));
    let kernel = Kernel::new(metrics);
    let syncer_options = SyncerOptions {
        full_sync_interval: Duration::from_secs(10),
        ..syncer_options(Vec::new())
    };
    let tracker = Tracker::new(SystemTime::UNIX_EPOCH);
    let clock = || Instant::now().into_std();
    let task = Task {
        syncer: Syncer::new(kernel.clone(), tracker, syncer_options, clock),
        pacer: pacer(),
        reporter,
        sweeper: None,
        changes: receivers.families.v4,
        address_watch: None,
        check_interval: intervals.check,
        verify_interval: intervals.verify,
        first_applied: None,
        requests: tokio::sync::mpsc::channel(1).1,
        stop: CancellationToken::new(),
    };
    let at = |millisecond| kernel.began + Duration::from_millis(millisecond);
    let script = async {
        for (millisecond, step) in steps {
            sleep_until(at(*millisecond)).await;
            take(step, &kernel, &senders);
        }
        pending::<()>().await;
    };
    tokio::select! {
        () = task.run() => panic!("the task has ended"),
        () = script => {}
        () = sleep_until(at(end)) => {}
    }
    kernel
}

#[tokio::test(start_paused = true)]
async fn the_first_change_is_written_at_once_and_the_next_ones_after_the_gap() {
    let steps = [
        (0, Listed),
        (500, Comes(1)),
        (999, Comes(2)),
        (1001, Comes(3)),
        (5000, Comes(4)),
    ];
    assert_eq!(restores(&steps, 14_999).await, [0, 1000, 2000, 5000]);
    // All rules again when nothing was done for long.
    assert_eq!(restores(&steps, 15_500).await.last(), Some(&15_000));
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_is_retried_without_another_change() {
    // A partial restore that fails is followed by a full one at once. If that fails as well, one of
    // the change alone shows whether it is the cause, and one without it whether the node is. Then
    // there is a retry.
    let mut steps = vec![(0, Listed)];
    steps.extend((0..4).map(|_| (3000, Broken)));
    steps.extend([(3000, Comes(1)), (8000, Comes(2))]);
    let expected = [0, 3000, 3000, 3000, 3000, 4000, 8000];
    assert_eq!(restores(&steps, 9000).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_change_does_not_wait_for_a_late_retry() {
    let mut steps: Vec<_> = (0..6).map(|_| (0, Broken)).collect();
    steps.extend([(0, Listed), (8500, Comes(1))]);
    // Retries after 1, 2, 4 and 5 seconds; the change comes before the last one.
    let found = restores(&steps, 20_000).await;
    assert_eq!(found[..5], [0, 1000, 3000, 7000, 8500], "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_service_is_retried_without_another_change() {
    let steps = [
        (0, Listed),
        (500, Poisoned("ns/9:p")),
        (3000, Comes(9)),
        (5000, Comes(1)),
    ];
    // Partial, full, without endpoints, left out; 1 s after the failure the first retry, and with
    // the change of another the second one.
    let expected = [0, 3000, 3000, 3000, 3000, 4000, 5000];
    assert_eq!(restores(&steps, 5500).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_delays_changes_for_at_most_five_seconds() {
    let intervals = Intervals {
        check: Some(Duration::from_secs(2)),
        verify: None,
    };
    let steps = [
        (0, Listed),
        (1500, ListHangs),
        (3000, Comes(1)),
        (20_000, Comes(2)),
    ];
    let kernel = run(&steps, intervals, 11_000).await;
    // The check that began at 2 s gives way to the change 5 s after that was due.
    assert_eq!(kernel.restores.take(), [0, 8000]);
    // Checks do not follow each other without a pause, however long they take.
    let lists = kernel.lists.take();
    assert_eq!(lists, [2000, 10_000]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_one_chain_is_repaired_during_a_verification() {
    // A verification takes six seconds from here on.
    let steps = served([(1500, SaveTakes(3)), (4000, Flushed)]);
    let kernel = run(&steps, VERIFIED, 9900).await;
    assert_eq!(kernel.restores.take(), [0, 4000]);
}

/// Checks every ten minutes and verifications every two seconds.
const VERIFIED: Intervals = Intervals {
    check: Some(Duration::from_secs(600)),
    verify: Some(Duration::from_secs(2)),
};

/// Checks and verifications every ten minutes.
const CHECKED: Intervals = Intervals {
    verify: VERIFIED.check,
    ..VERIFIED
};

#[tokio::test(start_paused = true)]
async fn a_repair_after_lost_events_is_reported_once() {
    let steps = served([(4000, EventsLost)]);
    let kernel = run(&steps, CHECKED, 9000).await;
    // The fixed chain at once, the chain of the Service after the verification.
    assert_eq!(kernel.restores.take(), [0, 4000, 5000]);
    assert_eq!(kernel.repairs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_verification_is_not_interrupted_by_changes_of_third_party_chains() {
    let steps = [
        (0, Listed),
        (1500, SaveTakes(3)),
        (4000, Reported("CNI-HOSTPORT-DNAT")),
        (5000, Reported("KUBE-SVC-AAAAAAAAAAAAAAAA")),
    ];
    let kernel = run(&steps, VERIFIED, 9900).await;
    // A restart would check the fixed chains of the three tables again.
    assert_eq!(kernel.lists.take(), [2000, 2000, 2000]);
}

#[tokio::test(start_paused = true)]
async fn a_verification_that_ends_early_keeps_what_its_check_has_found() {
    let added = "-A KUBE-MARK-MASQ -j ACCEPT";
    for (seconds, last, end, repaired_at) in [
        // It is interrupted by the change of a chain, or abandoned for a sync.
        (3, (4000, Flushed), 5000, 4000),
        (30, (3000, Comes(2)), 9000, 8000),
    ] {
        let steps = served([(1500, SaveTakes(seconds)), (1600, Edited(added)), last]);
        let kernel = run(&steps, VERIFIED, end).await;
        assert_eq!(kernel.restores.take(), [0, repaired_at]);
        let rules = kernel.fake.rules().to_save_text();
        assert!(!rules.contains(added), "{seconds}: {rules}");
    }
}

/// Otherwise changes by other programs could interrupt each of them.
#[tokio::test(start_paused = true)]
async fn another_reading_of_all_rules_is_interrupted_like_a_verification() {
    let steps = served([
        (1500, SaveFails),
        (2000, EventsLost),
        (5000, SaveTakes(2)),
        (8000, Flushed),
    ]);
    let kernel = run(&steps, CHECKED, 9900).await;
    let lists = kernel.lists.take();
    let after = |time: u64| lists.iter().filter(|at| **at >= time).count();
    // The fixed chains of three tables, the changed chain, and the three tables again.
    assert_eq!((after(7000), after(8000)), (7, 4), "{lists:?}");
}

#[tokio::test(start_paused = true)]
async fn a_verification_that_could_not_read_is_repeated_without_a_change() {
    let steps = [(0, Listed), (1500, Unprintable)];
    let kernel = run(&steps, VERIFIED, 7900).await;
    let verified_at: BTreeSet<u64> = kernel.lists.take().into_iter().collect();
    // The second one reads everything, and no program has changed rules since.
    assert_eq!(verified_at, [2000, 4000].into());
}

/// The full sync after a flush of nat trusts what was known of filter, unless that changes too.
#[tokio::test(start_paused = true)]
async fn a_flush_of_filter_soon_after_one_of_nat_is_repaired_with_it() {
    let steps = served([
        (200, Edited("-F PREROUTING\n-F OUTPUT\n-F POSTROUTING")),
        (200, Reported("PREROUTING")),
        (
            500,
            Edited("COMMIT\n*filter\n-F INPUT\n-F FORWARD\n-F OUTPUT"),
        ),
        (500, Reported("PREROUTING")),
    ]);
    let kernel = run(&steps, Intervals::default(), 3000).await;
    assert_eq!(kernel.restores.take(), [0, 1000]);
    let rules = kernel.fake.rules().to_save_text();
    for chain in ["INPUT", "FORWARD", "OUTPUT", "PREROUTING", "POSTROUTING"] {
        assert!(rules.contains(&format!("-A {chain} ")), "{chain}: {rules}");
    }
}
