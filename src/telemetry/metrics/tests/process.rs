//! Tests of `process`.

use super::*;

#[test]
fn all_process_metrics_are_collected() {
    let registry = Registry::new();
    register(&registry).unwrap();
    let families = registry.gather();
    assert_eq!(families.len(), 9);
    let mut start = families.iter().filter(|family| family.name() == START);
    let start = start.next().unwrap().get_metric()[0]
        .get_gauge()
        .get_value();
    // After 2020 and before 2100.
    assert!((1.57e9..4.1e9).contains(&start));
}

#[test]
fn network_counters_are_found_by_name() {
    let text = "TcpExt: InOctets\nTcpExt: 1\nIpExt: InNoRoutes InOctets\nIpExt: 2 3\n";
    assert_eq!(ip_extension(text, "InOctets"), Some(3.0));
    assert_eq!(ip_extension(text, "OutOctets"), None);
    assert_eq!(ip_extension("", "InOctets"), None);
}
