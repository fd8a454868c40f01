//! The laws that hold for every cluster and every history of it.
//!
//! An edit is a number: what it means depends on the cluster it meets, so proptest can leave edits
//! out of a failing history and the rest still makes sense.

use crate::cluster;
use crate::support::{left_out, payloads};
#[path = "support/laws.rs"]
mod laws;

use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{LiveChains, PartialRestore, TreeThresholds};
use deltaproxy::testing::tracker::Tracker;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::FileFailurePersistence;
use proptest::{prop_assume, proptest};

use cluster::{Dice, World, any_settings, tracker};
use laws::{Comments, Play, Shape};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases: left_out::cases(cases),
        max_global_rejects: cases,
        max_shrink_iters: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

/// Every history has at least this many edits.
const EDITS: std::ops::Range<usize> = 200..230;

const NEVER_LARGE: usize = usize::MAX;

/// Few enough endpoints that a history crosses the threshold many times, in both directions.
const OFTEN_LARGE: usize = 5;

proptest! {
    #![proptest_config(config(80))]

    #[test]
    fn changed_chains_end_where_a_full_restore_ends(
        edits in vec(any::<u64>(), EDITS),
        setting: u64,
    ) {
        let shape = Shape { partial: PartialRestore::ChangedChains, threshold: NEVER_LARGE, dispatch: TreeThresholds::FLAT };
        Play::of(setting, IpFamily::V4, shape).through(&edits).ends_like_a_full_restore(Comments::Compared);
    }

    #[test]
    fn changed_chains_of_ipv6_do_so_too(edits in vec(any::<u64>(), EDITS), setting: u64) {
        let shape = Shape { partial: PartialRestore::ChangedChains, threshold: NEVER_LARGE, dispatch: TreeThresholds::FLAT };
        Play::of(setting, IpFamily::V6, shape).through(&edits).ends_like_a_full_restore(Comments::Compared);
    }

    #[test]
    fn kep_3453_ends_where_a_full_restore_ends(edits in vec(any::<u64>(), EDITS), setting: u64) {
        let shape = Shape { partial: PartialRestore::Kep3453, threshold: NEVER_LARGE, dispatch: TreeThresholds::FLAT };
        Play::of(setting, IpFamily::V4, shape).through(&edits).ends_like_a_full_restore(Comments::Compared);
    }

    #[test]
    fn trees_end_where_a_full_restore_ends(
        edits in vec(any::<u64>(), EDITS),
        setting: u64,
        is_v6: bool,
        is_kep: bool,
        limit in 3..40_u64,
    ) {
        let family = if is_v6 { IpFamily::V6 } else { IpFamily::V4 };
        let partial = if is_kep { PartialRestore::Kep3453 } else { PartialRestore::ChangedChains };
        let dispatch = TreeThresholds { nat: Some(limit), filter: Some(limit) };
        let shape = Shape { partial, threshold: NEVER_LARGE, dispatch };
        Play::of(setting, family, shape).through(&edits).ends_like_a_full_restore(Comments::Compared);
    }

    #[test]
    fn crossing_the_threshold_leaves_only_comments_behind(
        edits in vec(any::<u64>(), EDITS),
        setting: u64,
        is_kep: bool,
    ) {
        let partial = if is_kep { PartialRestore::Kep3453 } else { PartialRestore::ChangedChains };
        let shape = Shape { partial, threshold: OFTEN_LARGE, dispatch: TreeThresholds::FLAT };
        let mut play = Play::of(setting, IpFamily::V4, shape).through(&edits);
        play.ends_like_a_full_restore(Comments::Ignored);
        // Fails if most clusters were never large.
        prop_assume!(play.was_large);
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn the_order_of_independent_changes_does_not_change_a_byte(
        edits in vec(any::<u64>(), 20..60),
        order: u64,
    ) {
        let mut world = World::empty(IpFamily::V4);
        for seed in edits {
            world.edit(&mut Dice::new(seed));
        }
        let mut changes = world.listing();
        let sorted = full(&tracker(changes.clone()), order);
        Dice::new(order).shuffle(&mut changes);
        assert_eq!(sorted, full(&tracker(changes), order));
    }
}

fn full(tracker: &Tracker, setting: u64) -> String {
    let settings = any_settings(&mut Dice::new(setting), IpFamily::V4);
    let mut options = settings.options(tracker.node(), &[]);
    options.large_cluster_endpoints = NEVER_LARGE;
    payloads::full(tracker, &options, &LiveChains::default()).0
}
