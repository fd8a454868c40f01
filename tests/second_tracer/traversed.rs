//! The number of rules that a packet traverses, by both tracers and in both forms of dispatch.

use deltaproxy::testing::inspect::explain::NodeRules;
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::RuleSet;

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

/// Returns how many rules the packet traverses.
fn counted(rules: &RuleSet, question: &Question) -> Option<usize> {
    let family = IpFamily::of(question.destination);
    let node = NodeRules::new(rules, family, &question.own);
    let traversed = explained_with(node, question, |path| path.traversed);
    Some(traversed?.rules)
}

#[test]
fn as_many_rules_are_traversed_as_a_second_tracer_counts_over_all_dumps() {
    let mut counts = 0;
    for (name, fixture) in dumps() {
        for question in &fixture.questions {
            let expected = most_traversed(&fixture.save, question);
            let found = counted(&fixture.rules, question);
            if let (Some(expected), Some(found)) = (expected, found) {
                assert_eq!(found, expected, "{name}: {question:?}");
                counts += 1;
            }
        }
    }
    tell(format_args!("second tracer: {counts} counts of rules"));
    assert!(counts > 300, "{counts}");
}

#[test]
fn as_many_rules_are_traversed_as_a_second_tracer_counts_in_flat_chains_and_in_trees() {
    let (mut asked, mut different) = (0, 0);
    for seed in 0..16_u64 {
        let BothForms { flat, tree } = BothForms::of_seed(seed);
        let fixture = Fixture::new(&flat.to_save_text());
        let save = Save::read(&tree.to_save_text()).unwrap();
        let step = fixture.questions.len().div_ceil(MOST_QUESTIONS).max(1);
        for question in fixture.questions.iter().step_by(step) {
            let expected = [&fixture.save, &save].map(|save| most_traversed(save, question));
            let [Some(of_flat), Some(of_tree)] = expected else {
                continue;
            };
            asked += 1;
            different += usize::from(of_flat != of_tree);
            assert_eq!(counted(&flat, question), Some(of_flat), "{question:?}");
            assert_eq!(counted(&tree, question), Some(of_tree), "{question:?}");
        }
    }
    assert!(
        asked > 300 && different > 150,
        "{asked} asked, {different} different"
    );
}
