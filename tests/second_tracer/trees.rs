//! Packets end alike in flat dispatch chains and in trees, by both tracers.

use std::net::IpAddr;

use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{FullPayload, LiveChains, TreeThresholds, flattened};
use deltaproxy::testing::rules::{Payload, RuleSet, Table};

use super::{Fixture, difference, explained};
use crate::cluster::{Dice, World, any_settings};
use crate::second_tracer::save::Save;
use crate::support::rules::tree_chains;

/// Questions for each cluster: the second tracer is slow.
const MOST_QUESTIONS: usize = 400;

fn rendered(world: &World, setting: u64, dispatch: TreeThresholds) -> RuleSet {
    let tracker = world.tracker();
    let node = tracker.node();
    let environment = any_settings(&mut Dice::new(setting), world.family);
    let mut options = environment.options(node, &[]);
    options.tree_thresholds = dispatch;
    let live = LiveChains::default();
    let mut payload = FullPayload::new(&tracker, &options, &live);
    let mut bytes = Vec::new();
    while payload.write_next(&mut bytes) {}
    let mut rules = RuleSet::default();
    rules.apply(&String::from_utf8(bytes).unwrap()).unwrap();
    rules
}

/// The rules of a random cluster in both forms of dispatch.
pub(super) struct BothForms {
    pub(super) flat: RuleSet,
    pub(super) tree: RuleSet,
}

impl BothForms {
    pub(super) fn of_seed(seed: u64) -> Self {
        let family = IpFamily::ALL[usize::try_from(seed % 2).unwrap()];
        let mut world = if seed % 4 < 2 {
            World::plain(family, 60, 1)
        } else {
            World::empty(family)
        };
        for edit in 0..100 {
            world.edit(&mut Dice::new(seed * 1_000 + edit));
        }
        let limit = Some(2 + seed % 9);
        let thresholds = TreeThresholds {
            nat: limit,
            filter: limit,
        };
        Self {
            flat: rendered(&world, seed, TreeThresholds::FLAT),
            tree: rendered(&world, seed, thresholds),
        }
    }
}

#[test]
fn packets_end_alike_in_flat_chains_and_in_trees() {
    let (mut asked, mut chains) = (0, 0);
    for seed in 0..16_u64 {
        let BothForms { flat, tree } = BothForms::of_seed(seed);
        chains += tree_chains(&tree);
        assert_eq!(
            flattened(tree.clone()).rule_count(Table::Nat),
            flat.rule_count(Table::Nat)
        );
        let fixture = Fixture::new(&flat.to_save_text());
        let save = Save::read(&tree.to_save_text()).unwrap();
        let count = fixture.questions.len();
        let step = count.div_ceil(MOST_QUESTIONS).max(1);
        for question in fixture.questions.iter().step_by(step) {
            for is_neighbor in [false, true] {
                let mut question = question.clone();
                if is_neighbor {
                    question.destination = next(question.destination);
                }
                asked += 1;
                let expected = explained(&flat, &question);
                assert_eq!(explained(&tree, &question), expected, "{question:?}");
                if asked % 8 == 0 {
                    let second = difference(&save, &tree, &question);
                    assert!(second.is_none_or(|same| same.is_ok()), "{question:?}");
                }
            }
        }
    }
    assert!(
        asked > 4_000 && chains > 150,
        "{asked} asked, {chains} chains"
    );
}

fn next(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() ^ 1).into()),
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() ^ 1).into()),
    }
}
