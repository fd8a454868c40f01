//! The laws of `diff` over random clusters: nothing differs from itself, equal is what has equal
//! rules, and what was restored no longer differs, whichever way it was restored.

use crate::cluster;
use crate::support::payloads;

use deltaproxy::testing::inspect::diff::{
    ManifestFacts, PortChange, Review, RulesetText, compare, json, text, unified,
};
use deltaproxy::testing::model::ServiceName;
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{
    AppliedState, LiveChains, Options, PartialRestore, is_service_chain, partial_payload,
};
use deltaproxy::testing::rules::{RuleSet, Table};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::proptest;
use proptest::test_runner::FileFailurePersistence;

use cluster::{Dice, World, any_settings};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 60,
        max_shrink_iters: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_was_restored_does_not_differ(
        edits in vec(any::<u64>(), 20..80),
        more in vec(any::<u64>(), 0..12),
        setting: u64,
        is_v6: bool,
    ) {
        let family = if is_v6 { IpFamily::V6 } else { IpFamily::V4 };
        let mut world = World::empty(family);
        for seed in &edits {
            world.edit(&mut Dice::new(*seed));
        }
        let node = world.node.clone();
        let options = any_settings(&mut Dice::new(setting), family).options(Some(&node), &[]);
        let before = Rendered::new(&world, &options, &LiveChains::default());
        let mut after_world = world.clone();
        for seed in &more {
            after_world.edit(&mut Dice::new(*seed));
        }
        after_world.node = node;
        let after = Rendered::new(&after_world, &options, &LiveChains::default());

        assert_same(family, &before.rules, &before.rules);
        let review = compare(family, &before.rules, &after.rules);
        assert_eq!(review.is_empty(), before.rules == after.rules);
        assert_complete(&review, &before.rules, &after.rules);

        // All over again, on top of what was there.
        let mut restored = before.rules.clone();
        let full = Rendered::new(&after_world, &options, &payloads::live(&before.rules));
        restored.apply(&full.text).unwrap();
        assert_same(family, &restored, &after.rules);

        // Only what changed: the shared chains are in another order then.
        let mut restored = before.rules.clone();
        restored.apply(&before.partial_to(&after_world, &options)).unwrap();
        assert_same(family, &restored, &after.rules);
    }
}

/// A full payload, what it makes of an empty kernel, and the books.
struct Rendered {
    text: String,
    rules: RuleSet,
    applied: AppliedState,
    world: World,
}

impl Rendered {
    fn new(world: &World, options: &Options, live: &LiveChains) -> Self {
        let tracker = world.tracker();
        let (text, applied, _) = payloads::full(&tracker, options, live);
        let mut rules = RuleSet::default();
        rules.apply(&text).unwrap();
        let world = world.clone();
        Self {
            text,
            rules,
            applied,
            world,
        }
    }

    fn partial_to(self, after: &World, options: &Options) -> String {
        let mut applied = self.applied;
        let tracker = after.tracker();
        let slices = self.world.slices.values().chain(after.slices.values());
        let names = self.world.services.keys().chain(after.services.keys());
        let names = names.chain(slices.map(|slice| &slice.service));
        let names: std::collections::BTreeSet<&ServiceName> = names.collect();
        let partial = partial_payload(
            &mut applied,
            &tracker,
            names.iter().copied(),
            options,
            PartialRestore::ChangedChains,
        );
        String::from_utf8(partial.text).unwrap()
    }
}

/// Nothing differs but comments, which a partial restore may leave behind: crossing the threshold
/// of large clusters rewrites nothing.
#[track_caller]
fn assert_same(family: IpFamily, left: &RuleSet, right: &RuleSet) {
    let review = compare(family, left, right);
    let mut said = String::new();
    text(
        &mut said,
        std::slice::from_ref(&review),
        &ManifestFacts::default(),
    )
    .unwrap();
    assert!(!review.matters(), "{said}");
    assert!(review.stale.is_empty(), "{said}");
    if review.is_empty() {
        assert_eq!(said, "");
        assert_eq!(unified_text(left, right), "");
    }
}

fn unified_text(left: &RuleSet, right: &RuleSet) -> String {
    let sheets = (
        RulesetText::of(left, right, right),
        RulesetText::of(right, left, right),
    );
    let mut said = String::new();
    unified(&mut said, ("left", "right"), &sheets.0, &sheets.1).unwrap();
    said
}

/// Every chain of a service port that differs is somewhere in the review, and every service port
/// whose traffic changes has something said of it.
fn assert_complete(review: &Review<'_>, left: &RuleSet, right: &RuleSet) {
    let value = json(std::slice::from_ref(review), &ManifestFacts::default()).to_string();
    let names = left.chains(Table::Nat).chain(right.chains(Table::Nat));
    for (name, _) in names.filter(|(name, _)| is_service_chain(name)) {
        let is_same = left.chain(Table::Nat, name) == right.chain(Table::Nat, name);
        assert_eq!(
            // Entrances have chains, too; what differs has `cosmetic` behind its name.
            value.contains(&format!("\"chain\":\"{name}\",\"cosmetic\"")),
            !is_same,
            "{name}"
        );
    }
    for port in &review.ports {
        let is_told = !port.effects.is_empty();
        assert_eq!(is_told, port.change != PortChange::Cosmetic, "{port:#?}");
    }
    assert_eq!(review.is_empty(), unified_text(left, right).is_empty());
}
