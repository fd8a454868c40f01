//! The promise kept: the same rules as the real kube-proxy, whatever the API server accepts.
//!
//! One control plane, and for each variant two nodes that run as the same Node: one with
//! kube-proxy, one with deltaproxy, with the same command line. After every step both kernels must
//! hold the same rules ([`compare`] says what little order is undefined).
//!
//! `CONFORMANCE_SEED` repeats a random history, `tests/soak.sh` runs long ones.

use crate::{support, support_matrix};

mod compare;
mod differences;
mod faults;
mod features;
mod marker;
mod node;
mod random;
pub mod releases;
pub mod run;
mod service;
mod slice;
mod soak;
mod stage;
mod variant;

use std::time::{Duration, Instant};

use run::{Plan, Tally, run};
use stage::Size;
use support::left_out::{Part, is_due, is_left_out};
use support::{Need, machine_has, needs, tell};
use variant::{SIDE_BY_SIDE, VARIANTS, group};

/// Where the histories of every run begin. A seed stands for the variants, too.
const SEED: u64 = 3456;

/// Which variants there are in threes.
const GROUPS: u64 = (VARIANTS.len() / SIDE_BY_SIDE) as u64;

/// Histories that take turns: of each group of variants, around the threshold, with faults.
const TURNS: u64 = GROUPS + 2;

#[test]
fn random_histories_leave_the_same_rules() {
    needs!(Cluster);
    let seeds: Vec<u64> = match asked("CONFORMANCE_SEED") {
        Some(seed) => vec![seed],
        None => (0..GROUPS)
            .filter(|group| is_due(*group, TURNS))
            .map(|group| SEED + group)
            .collect(),
    };
    if seeds.is_empty() {
        return;
    }
    // A seed that is given is that of a failure, at any step.
    let is_short = is_left_out(Part::MoreCases) && asked("CONFORMANCE_SEED").is_none();
    let steps = if is_short { 65 } else { 130 };
    let mut tally = Tally::default();
    for seed in seeds {
        tally += run(&Plan::new(seed, Size::Small, steps));
    }
    tell(format_args!("conformance: {tally}"));
}

#[test]
fn random_histories_around_the_threshold_leave_the_same_rules() {
    if !machine_has(Need::Cluster) || !is_due(GROUPS, TURNS) {
        return;
    }
    let seed = asked("CONFORMANCE_SEED").unwrap_or(SEED);
    let tally = run(&Plan::new(seed, Size::Large, 40));
    assert!(
        tally.crossings > 1,
        "the threshold was not crossed: {tally}"
    );
}

#[test]
fn every_feature_leaves_the_same_rules() {
    needs!(Cluster);
    let _ = run::features(group(0));
}

/// Two rounds of all faults, in some two minutes.
#[test]
fn faults_in_random_histories_leave_the_same_rules() {
    if !machine_has(Need::Cluster) || !is_due(GROUPS + 1, TURNS) {
        return;
    }
    soak::run(
        asked("CONFORMANCE_SEED").unwrap_or(SEED),
        2 * faults::Fault::ALL.len(),
    );
}

/// Features, and random steps of all variants together, against the kube-proxy of one release.
///
/// `tests/soak.sh --kube-proxy 1.33` runs it.
#[test]
#[ignore = "takes minutes, and records its result"]
fn rules_of_a_release() {
    const RANDOM_STEPS: usize = 200;
    assert!(machine_has(Need::Cluster));
    let features = run::features(group(0));
    let mut random = Tally::default();
    for seed in SEED..SEED + GROUPS {
        let steps = RANDOM_STEPS.div_ceil(VARIANTS.len() / SIDE_BY_SIDE);
        random += run(&Plan::new(seed, Size::Small, steps));
    }
    support_matrix::record_kube_proxy(&features, &random);
}

/// What `tests/soak.sh --faults` runs.
#[test]
#[ignore = "takes as long as it is told to"]
fn soak_with_faults() {
    needs!(Cluster);
    let first = asked("CONFORMANCE_SEED").unwrap_or(SEED);
    let hours = asked("CONFORMANCE_HOURS").unwrap_or_default();
    let time = Duration::from_secs(hours * 3600);
    let steps = asked("CONFORMANCE_STEPS").map_or(250, |steps| usize::try_from(steps).unwrap());
    soak::run_for(first, time, steps);
}

/// Three of ten restores fail, in each group of variants.
#[test]
#[ignore = "takes minutes"]
fn unreliable_restores_leave_the_same_rules() {
    needs!(Cluster);
    for seed in SEED..SEED + GROUPS {
        soak::run_with_unreliable_restores(seed, 70);
    }
}

/// What `tests/soak.sh` runs: one history after the other until enough steps or hours are over.
#[test]
#[ignore = "takes as long as it is told to"]
fn soak() {
    needs!(Cluster);
    let (steps, hours) = (asked("CONFORMANCE_STEPS"), asked("CONFORMANCE_HOURS"));
    let start = Instant::now();
    let first = asked("CONFORMANCE_SEED").unwrap_or(SEED);
    let mut tally = Tally::default();
    for seed in first.. {
        tally += run(&Plan::new(seed, Size::Small, 250));
        if seed % GROUPS == 0 {
            tally += run(&Plan::new(seed, Size::Large, 60));
        }
        let are_enough = steps.is_some_and(|steps| tally.steps as u64 >= steps);
        let over = hours.map(|hours| Duration::from_secs(hours * 3600));
        if are_enough || over.is_some_and(|over| start.elapsed() > over) {
            tell(format_args!(
                "conformance: seeds {first} to {seed}: {tally}"
            ));
            return;
        }
    }
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}
