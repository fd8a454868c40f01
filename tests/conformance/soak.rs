//! A random history with a fault in each step, and what must not grow meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::faults::Fault;
use super::node::Node;
use super::random::History;
use super::run::take;
use super::service::NAMESPACES;
use super::stage::{Op, Size, Stage};
use super::support::process::{children, memory};
use super::support::tell;
use super::support::wait::{PATIENCE, ensure, eventually};
use super::variant::group;
use crate::cluster::Dice;

/// Edits before the programs start.
const STEPS_BEFORE: usize = 12;

/// Repairs of a chain that is changed more often than this wait longer each time.
const CALM: Duration = Duration::from_millis(2100);

/// Share of the steps at the end without restarts, over which memory is measured.
const LAST: usize = 3;

/// Growth over these steps that is no leak: pages that the allocator has touched, and a history
/// whose cluster has grown.
const MOST_GROWTH_KIB: u64 = 8 << 10;

/// What was seen of one kind of fault.
#[derive(Debug, Default)]
struct Repairs {
    times: usize,
    /// Longest time until the rules were equal.
    longest: Duration,
}

/// Runs a history of so many steps, and panics at the first difference that stays.
pub fn run(seed: u64, steps: usize) {
    let variants = group(seed);
    let mut stage = Stage::new(&NAMESPACES);
    stage.expect_faults();
    let (mut history, mut dice) = (History::new(seed, Size::Small), Dice::new(!seed));
    for _ in 0..STEPS_BEFORE {
        stage.prepare(&history.edit_objects());
    }
    stage.cast(&variants.iter().collect::<Vec<_>>());
    let mut faults: BTreeMap<Fault, Repairs> = BTreeMap::new();
    let first_calm = steps - steps / LAST;
    let mut before = Vec::new();
    for step in 0..steps {
        if step == first_calm {
            stage.step(&[Op::RestartOurs], Size::Small);
            // What a start leaves is touched by then.
            stage.step(&history.edit_objects(), Size::Small);
            before = stage
                .pairs_now()
                .iter()
                .map(|[_, ours]| usage(ours))
                .collect();
        }
        let fault = next_fault(step, step >= first_calm, &mut dice);
        let ops = with_fault(fault, history.edit_objects(), &mut dice);
        thread::sleep(CALM);
        let effect = take(&mut stage, (seed, step), &ops, Size::Small);
        let repairs = faults.entry(fault).or_default();
        repairs.times += effect.damage.iter().filter(|done| !done.is_empty()).count();
        repairs.longest = repairs.longest.max(effect.repaired_after);
    }
    let mut memory = String::new();
    for ([_, ours], before) in stage.pairs_now().iter().zip(before) {
        let _ = write!(memory, " {}", nothing_grew(ours, &before));
    }
    report(&faults);
    tell(format_args!(
        "conformance: faults: seed {seed}, {steps} steps, 0 differences; memory{memory}"
    ));
}

/// Runs a history in which three of ten restores fail, and panics at the first difference that
/// stays.
pub fn run_with_unreliable_restores(seed: u64, steps: usize) {
    let variants = group(seed);
    let mut stage = Stage::new(&NAMESPACES);
    stage.expect_faults();
    let mut history = History::new(seed, Size::Small);
    stage.cast(&variants.iter().collect::<Vec<_>>());
    let mut longest = Duration::ZERO;
    for step in 0..steps {
        let mut ops = vec![Op::Fault(Fault::UnreliableRestores, 0)];
        ops.extend(history.edit_objects());
        let effect = take(&mut stage, (seed, step), &ops, Size::Small);
        longest = longest.max(effect.repaired_after);
    }
    let pairs = stage.pairs_now();
    let failed = pairs
        .iter()
        .map(|[_, ours]| ours.metric("kubeproxy_sync_proxy_rules_iptables_restore_failures_total"));
    let (failed, longest) = (failed.sum::<u64>(), longest.as_secs_f64());
    assert!(failed > 0, "no restore has failed");
    tell(format_args!(
        "conformance: unreliable restores: seed {seed}, {steps} steps, {failed} failed restores, 0 \
         differences, equal after {longest:.2} s at most"
    ));
}

/// Each kind in turn, so that none is left out; at the end, those that do not restart the daemon.
fn next_fault(step: usize, is_end: bool, dice: &mut Dice) -> Fault {
    let fault = Fault::ALL[step % Fault::ALL.len()];
    if is_end && fault == Fault::KilledDaemon {
        return dice.pick(Fault::damages());
    }
    fault
}

/// Changes come before the fault, while it lasts, or after it.
fn with_fault(fault: Fault, edits: Vec<Op>, dice: &mut Dice) -> Vec<Op> {
    let fault_op = Op::Fault(fault, dice.below(1 << 20));
    let at = match fault {
        // In the middle of a change.
        Fault::KilledDaemon => edits.len(),
        Fault::StoppedDaemon | Fault::FailingRestores | Fault::KilledRestore | Fault::HeldLock => 0,
        _ => dice.below(edits.len() + 1),
    };
    let mut ops = edits;
    ops.insert(at, fault_op);
    ops.push(Op::EndFault(fault));
    ops
}

/// Memory and open files of a process.
#[derive(Debug)]
struct Usage {
    kibibytes: u64,
    /// Number of open files of each kind: the path, or what the kernel calls it. Without sockets
    /// that listen: Services with health check node ports come and go.
    files: BTreeMap<String, usize>,
}

impl Usage {
    fn file_count(&self) -> usize {
        self.files.values().sum()
    }
}

/// Reads them once no child runs.
fn usage(node: &Node) -> Usage {
    let id = node.id().expect("a running daemon");
    eventually(PATIENCE, || {
        let children = children(id);
        ensure(children.is_empty(), || {
            format!("children of {id}: {children:?}")
        })
    });
    Usage {
        kibibytes: memory(id, "VmRSS"),
        files: open_files(id),
    }
}

fn open_files(id: u32) -> BTreeMap<String, usize> {
    let mut files = BTreeMap::new();
    let listening = listening(id);
    let entries = fs::read_dir(format!("/proc/{id}/fd")).expect("files");
    for entry in entries.flatten() {
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        let target = target.to_string_lossy();
        if listening.contains(&*target) {
            continue;
        }
        // A socket or pipe has its number at the end.
        let kind = target.split_once(":[").map_or(&*target, |(kind, _)| kind);
        *files.entry(kind.to_owned()).or_default() += 1;
    }
    files
}

/// Sockets of the node of a process that listen, as links to open files name them.
fn listening(id: u32) -> BTreeSet<String> {
    const LISTEN: &str = "0A";
    let tables = ["tcp", "tcp6"].map(|table| {
        fs::read_to_string(format!("/proc/{id}/net/{table}")).expect("a table of sockets")
    });
    let lines = tables.iter().flat_map(|table| table.lines());
    let sockets = lines.filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let inode = columns.get(9)?;
        (columns[3] == LISTEN).then(|| format!("socket:[{inode}]"))
    });
    sockets.collect()
}

fn nothing_grew(node: &Node, before: &Usage) -> String {
    let name = node.variant().name;
    let after = eventually(PATIENCE, || {
        let after = usage(node);
        // Connections to the API server come and go.
        let is_same = after.file_count() <= before.file_count() + 2;
        ensure(is_same, || format!("{name}: {before:?}, then {after:?}"))?;
        Ok(after)
    });
    let most = before.kibibytes + MOST_GROWTH_KIB;
    assert!(
        after.kibibytes <= most,
        "{name}: {before:?}, then {after:?}"
    );
    format!("{} -> {} KiB", before.kibibytes, after.kibibytes)
}

fn report(faults: &BTreeMap<Fault, Repairs>) {
    for (fault, repairs) in faults {
        let (times, longest) = (repairs.times, repairs.longest.as_secs_f64());
        assert!(times > 0, "{fault:?} has never been caused");
        tell(format_args!(
            "conformance: {fault:?} {times} times, equal after {longest:.2} s at most"
        ));
    }
}

/// One history after the other until the time is over.
pub fn run_for(first: u64, time: Duration, steps: usize) {
    let start = Instant::now();
    for seed in first.. {
        run(seed, steps);
        if start.elapsed() > time {
            return;
        }
    }
}
