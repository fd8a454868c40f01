//! Tests of `watch`.

use super::*;

#[test]
fn the_age_of_a_kind_that_was_never_listed_counts_from_the_start() {
    let registry = Registry::new();
    let ages = WatchAges::register(&registry).unwrap();
    ages.start("Service");
    let started = ages.kinds()["Service"];
    ages.start("Service");
    assert_eq!(ages.kinds()["Service"], started);
    let later = started + Duration::from_secs(3600);
    ages.kinds().insert("Service", later);
    ages.start("Service");
    assert_eq!(ages.kinds()["Service"], later);
    ages.current("Service");
    assert_ne!(ages.kinds()["Service"], later);
    let families = registry.gather();
    assert!(
        families[0]
            .help()
            .ends_with("before the first list, since the start")
    );
}
