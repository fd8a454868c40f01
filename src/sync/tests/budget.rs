//! Pauses after syncs of a given cost: idle, in a burst, and under continuous change.

use super::pacer_tests::{MS, S, pacer_on, run};
use super::*;
use crate::clock::instant;

/// How often a pacer syncs, and how late the changes are.
struct Paced {
    starts: Vec<Duration>,
    /// From each change to the end of the sync that has it, sorted.
    latencies: Vec<Duration>,
}

impl Paced {
    /// A change every so often, for so long; each sync takes `cost` of time and CPU.
    fn new(gap: Gap, backend: Backend, cost: Duration, every: Duration, time: Duration) -> Self {
        let (mut pacer, begin) = (pacer_on(backend, gap), instant());
        let (mut starts, mut latencies, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        let (mut change, mut free) = (begin, begin);
        loop {
            // Changes arrive until the sync that is due for them begins.
            pacer.request(change);
            waiting.push(change);
            change += every;
            let due = pacer.next_due().unwrap().max(free);
            if change <= due {
                continue;
            }
            if due >= begin + time {
                break;
            }
            pacer.finished(&run(due, cost, cost), SyncResult::Applied);
            starts.push(due - begin);
            free = due + cost;
            latencies.extend(waiting.drain(..).map(|at| free - at));
        }
        latencies.sort_unstable();
        Self { starts, latencies }
    }

    fn p50(&self) -> Duration {
        self.latencies[self.latencies.len() / 2]
    }
}

const OURS: Gap = Gap::Budget(None);
/// kube-proxy's `minSyncPeriod`.
const UPSTREAM: Gap = Gap::Fixed(S);
const TEN_MINUTES: Duration = Duration::from_secs(600);

#[test]
fn isolated_changes_never_wait() {
    for backend in Backend::ALL {
        let isolated = Paced::new(OURS, backend, 60 * MS, 5 * S, TEN_MINUTES);
        assert_eq!(isolated.latencies.last(), Some(&(60 * MS)), "{backend}");
        assert_eq!(isolated.starts.len(), 120);
    }
}

#[test]
fn a_burst_has_no_pauses_and_is_covered_by_idle_time() {
    let legacy = Paced::new(OURS, Backend::Legacy, 60 * MS, 60 * MS, 10 * S);
    let starts = &legacy.starts[..8];
    assert_eq!(starts[..6], [0, 60, 120, 180, 240, 300].map(|at| at * MS));
    assert_eq!(starts[6..], [1360 * MS, 2420 * MS]);
    // Half a CPU for a second of CPU time: two seconds of pauses.
    let nft = Paced::new(OURS, Backend::Nft, 100 * MS, 10 * MS, 10 * S);
    let apart = |at: usize| nft.starts[at + 1].saturating_sub(nft.starts[at]);
    assert_eq!([0, 18, 20].map(apart), [100 * MS, 100 * MS, 200 * MS]);
}

/// The costs of a sync here and in kube-proxy were measured at 100, 1,000, 5,000 and 10,000
/// Services on legacy.
#[test]
fn continuous_change_on_legacy_costs_and_waits_as_with_kube_proxy() {
    for (ours, upstream) in [(5, 10), (55, 61), (368, 441), (628, 808)] {
        let paced = |gap, cost| Paced::new(gap, Backend::Legacy, cost, 200 * MS, TEN_MINUTES);
        let (cost, costs) = (ours * MS, upstream * MS);
        let (ours, upstream) = (paced(OURS, cost), paced(UPSTREAM, costs));
        let total = |paced: &Paced, cost| paced.starts.len() as u128 * Duration::as_micros(&cost);
        let [spent, budget] = [total(&ours, cost), total(&upstream, costs) * 11 / 10];
        assert!(spent <= budget, "{cost:?}: {spent} and {budget}");
        let [ours, upstream] = [ours.p50(), upstream.p50()];
        assert!(ours <= upstream, "{cost:?}: {ours:?} and {upstream:?}");
    }
}

#[test]
fn continuous_change_takes_its_share_of_a_cpu() {
    for percent in [5, 20, 50, 100] {
        let gap = Gap::Budget(Some(CpuBudget::percent(percent)));
        let paced = Paced::new(gap, Backend::Nft, 40 * MS, MS, TEN_MINUTES);
        let share = paced.starts.len() * 40 * 100 / 600_000;
        let wanted = usize::from(percent);
        assert!((wanted..=wanted + 1).contains(&share), "{percent}: {share}");
    }
}

#[test]
fn no_pause_is_longer_than_kube_proxys() {
    let mut account = CpuAccount::new(CpuBudget::percent(1));
    let at = instant();
    for turn in 0..20 {
        let pause = account.charge(&run(at, 30 * S, 20 * S));
        assert_eq!(pause, if turn < 5 { Duration::ZERO } else { S });
    }
}

/// A sync that spent its time waiting, as for the lock, has paused already.
#[test]
fn waiting_time_of_a_sync_is_no_cost() {
    let mut account = CpuAccount::new(CpuBudget::percent(50));
    let at = instant();
    for _ in 0..1000 {
        let pause = account.charge(&run(at, 100 * MS, 50 * MS));
        assert_eq!(pause, Duration::ZERO);
    }
}
