//! The scenario corpus on the fake kernel.

use crate::scenario;

use scenario::Scenario;

#[test]
fn scenarios_hold() {
    let scenarios = Scenario::all().unwrap();
    let failures: Vec<String> = scenarios
        .iter()
        .filter_map(|scenario| scenario.run().err())
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} scenarios fail\n\n{}",
        failures.len(),
        scenarios.len(),
        failures.join("\n")
    );
}
