//! Tests of `watch`.

use super::*;

#[test]
fn the_age_of_a_kind_that_was_never_listed_counts_from_the_start() {
    let registry = Registry::new();
    let ages = WatchAges::register(&registry).unwrap();
    ages.start("Service");
    let started = ages.0.lock()["Service"];
    ages.start("Service");
    assert_eq!(ages.0.lock()["Service"], started);
    let later = started + Duration::from_secs(3600);
    ages.0.lock().insert("Service", later);
    ages.start("Service");
    assert_eq!(ages.0.lock()["Service"], later);
    ages.current("Service");
    assert_ne!(ages.0.lock()["Service"], later);
    let families = registry.gather();
    assert!(
        families[0]
            .help()
            .ends_with("before the first list, since the start")
    );
}
