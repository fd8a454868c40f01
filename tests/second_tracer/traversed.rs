//! The number of rules that a packet traverses, by both tracers and in both forms of dispatch.

use deltaproxy::testing::inspect::explain::NodeRules;
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{inline_trees, with_trees};
use deltaproxy::testing::rules::RuleSet;
use deltaproxy::testing::ruleset::DispatchForm;

use super::save::Save;
use super::trees::BothForms;
use super::walk::{Choice, MOST_WALKS, Question, Stop, Walk};
use super::{Fixture, dumps, explained_with};
use crate::support::tell;

/// Questions for each cluster: the second tracer is slow.
const MOST_QUESTIONS: usize = 60;

/// The most rules that a packet is compared with which no unknown condition matches. `None`: it
/// does not end, or there are too many walks.
fn most_traversed(save: &Save, question: &Question) -> Option<usize> {
    let (mut most, mut scripts) = (0, vec![Vec::new()]);
    let mut walks = 0;
    while let Some(mut script) = scripts.pop() {
        walks += 1;
        if walks > MOST_WALKS {
            return None;
        }
        let mut walk = Walk::new(save, question, &script);
        match walk.hooks() {
            Stop::Ends(end) if end == "unclear" => return None,
            Stop::Ends(_) => most = most.max(walk.traversed),
            Stop::Asks(choice) => {
                if matches!(choice, Choice::Part(_)) {
                    scripts.push([&script[..], &[true]].concat());
                }
                script.push(false);
                scripts.push(script);
            }
        }
    }
    Some(most)
}

/// Returns how many rules the packet traverses, and how many in the other form of dispatch.
fn counted(
    rules: &RuleSet,
    other: Option<(DispatchForm, RuleSet)>,
    question: &Question,
) -> Option<(usize, usize)> {
    let family = IpFamily::of(question.destination);
    let node = NodeRules::new(rules, family, &question.own).with_other_dispatch(other);
    let (live, other) = explained_with(node, question, |path| {
        (path.traversed, path.traversed_otherwise)
    });
    let rules = live?.rules;
    Some((rules, other.map_or(rules, |other| other.rules)))
}

#[test]
fn as_many_rules_are_traversed_as_a_second_tracer_counts_over_all_dumps() {
    let mut counts = 0;
    for (name, fixture) in dumps() {
        for question in &fixture.questions {
            let expected = most_traversed(&fixture.save, question);
            let found = counted(&fixture.rules, None, question);
            if let (Some(expected), Some((found, _))) = (expected, found) {
                assert_eq!(found, expected, "{name}: {question:?}");
                counts += 1;
            }
        }
    }
    tell(format_args!("second tracer: {counts} counts of rules"));
    assert!(counts > 300, "{counts}");
}

#[test]
fn explain_counts_the_rules_of_the_other_form_as_they_would_be_rendered() {
    let (mut asked, mut different) = (0, 0);
    for seed in 0..16_u64 {
        let BothForms {
            flat,
            tree,
            thresholds,
        } = BothForms::of_seed(seed);
        let made = with_trees(&flat, thresholds).unwrap_or_else(|| flat.clone());
        assert!(made == tree, "seed {seed}:\n{made}\n{tree}");
        let in_tree = || Some((DispatchForm::Tree, made.clone()));
        // In the order of their destinations.
        let inlined = inline_trees(&tree);
        let in_flat = || Some((DispatchForm::Flat, inlined.clone()));
        let inlined_save = Save::read(&inlined.to_save_text()).unwrap();
        let fixture = Fixture::new(&flat.to_save_text());
        let save = Save::read(&tree.to_save_text()).unwrap();
        let step = fixture.questions.len().div_ceil(MOST_QUESTIONS).max(1);
        for question in fixture.questions.iter().step_by(step) {
            let saves = [&fixture.save, &save, &inlined_save];
            let expected = saves.map(|save| most_traversed(save, question));
            let [Some(of_flat), Some(of_tree), Some(of_inlined)] = expected else {
                continue;
            };
            asked += 1;
            different += usize::from(of_flat != of_tree);
            let found = counted(&flat, in_tree(), question);
            assert_eq!(found, Some((of_flat, of_tree)), "{question:?}");
            let found = counted(&tree, in_flat(), question);
            assert_eq!(found, Some((of_tree, of_inlined)), "{question:?}");
        }
    }
    assert!(
        asked > 300 && different > 150,
        "{asked} asked, {different} different"
    );
}
