//! Tests of `pools`.

use super::*;

#[track_caller]
fn check(range: &str, expected: &str) {
    let found = allocate_ip(&mut HashSet::new(), "shop/cart", range.parse().unwrap());
    assert_eq!(found.unwrap().to_string(), expected);
}

/// Literal addresses, so that no release changes them.
#[test]
fn a_cluster_ip_follows_from_the_name() {
    check("10.96.0.0/12", "10.108.76.165");
    check("fd00:10:96::/112", "fd00:10:96::dc5");
    check("10.96.0.7/32", "10.96.0.7");
}

#[test]
fn taken_addresses_are_skipped() {
    let mut taken = HashSet::from(["10.96.0.1", "10.96.0.6"].map(|ip| ip.parse().unwrap()));
    let mut allocate = |name: &str, range: &str| {
        let ip = allocate_ip(&mut taken, name, range.parse().unwrap());
        ip.map(|ip| ip.to_string())
    };
    let v4 = "10.96.0.0/29";
    let mut allocated = ["0", "1", "2", "3"].map(|name| allocate(name, v4).unwrap());
    allocated.sort();
    assert_eq!(
        allocated,
        ["10.96.0.2", "10.96.0.3", "10.96.0.4", "10.96.0.5"]
    );
    assert_eq!(allocate("5", v4), None);
    assert!(allocate("5", "fd00::/126").is_some());
    assert!(allocate("5", "::/0").is_some());
}

#[test]
fn node_ports_follow_from_names_and_taken_ones_are_skipped() {
    let mut taken = HashSet::new();
    // A literal number, so that no release changes it.
    for expected in [31800, 31801] {
        let port = allocate_port(&mut taken, "shop/cart:80", NODE_PORTS);
        assert_eq!(port, Some(expected));
    }
    let mut taken = HashSet::from([8]);
    let mut allocate = |name| allocate_port(&mut taken, name, 7..=9);
    let mut allocated = [allocate("a"), allocate("b")];
    allocated.sort_unstable();
    assert_eq!(allocated, [Some(7), Some(9)]);
    assert_eq!(allocate("c"), None);
}
