//! Agreement of nodes, whatever the order of their answers.

use super::*;

/// Renders disagreements as `web: 3=a,b 2=c -=d`.
fn shown(agreement: &Agreement<String, u32>) -> Vec<String> {
    let differing = agreement.disagreements().into_iter();
    differing
        .map(|(name, held)| {
            let held = held.iter().map(|held| {
                let value = held.value.map_or("-".to_owned(), u32::to_string);
                format!(" {value}={}", held.nodes.join(","))
            });
            format!("{name}:{}", held.collect::<String>())
        })
        .collect()
}

#[test]
fn the_order_of_answers_does_not_matter() {
    let orders = [["a", "b"], ["b", "a"]];
    let all = orders.map(|order| {
        let mut agreement = Agreement::default();
        for node in order {
            let value = u32::from(node == "a");
            agreement.add(node, [("web".to_owned(), value)]);
        }
        shown(&agreement)
    });
    assert_eq!(all, [["web: 1=a 0=b"], ["web: 1=a 0=b"]]);
}

#[test]
fn thousands_of_nodes_take_little_memory() {
    let mut agreement = Agreement::default();
    for number in 0..5_000 {
        let value = if number == 4_321 { 2 } else { 3 };
        agreement.add(&format!("node{number}"), [("web".to_owned(), value)]);
    }
    let words: usize = agreement.things["web"]
        .iter()
        .map(|(_, set)| set.0.len())
        .sum();
    assert!(words <= 2 * 5_000_usize.div_ceil(64), "{words}");
    let differing = agreement.disagreements();
    let counts: Vec<usize> = differing[0].1.iter().map(|held| held.nodes.len()).collect();
    assert_eq!(counts, [4_999, 1]);
    assert_eq!(differing[0].1[1].nodes, ["node4321"]);
}
