//! Tests of `network`.

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let shown = text.parse::<Network>().map(|network| network.to_string());
    assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{text}");
}

#[test]
fn networks_are_printed_as_iptables_prints_them() {
    check("172.30.0.1", "172.30.0.1/32");
    check("10.1.2.3/8", "10.0.0.0/8");
    check("10.1.2.3/255.255.0.0", "10.1.0.0/16");
    check("10.1.2.3/255.0.255.0", "10.0.2.0/255.0.255.0");
    check("0.0.0.0/0", "0.0.0.0/0");
    check("FD00:0:0::5", "fd00::5/128");
    check("fd00::1/64", "fd00::/64");
    check("fd00::1/ffff::", "fd00::/16");
    for bad in [
        "",
        "host",
        "10.0.0.0/33",
        "1.2.3.4,1.2.3.5",
        "1.2.3.4/ffff::",
    ] {
        check(bad, "none");
    }
}

#[test]
fn a_network_contains_only_addresses_of_its_family() {
    let everything: Network = "0.0.0.0/0".parse().unwrap();
    assert!(everything.is_all());
    assert!(everything.contains("1.2.3.4".parse().unwrap()));
    assert!(!everything.contains("fd00::1".parse().unwrap()));
    let holes: Network = "10.0.2.0/255.0.255.0".parse().unwrap();
    assert!(holes.contains("10.9.2.7".parse().unwrap()));
    assert!(!holes.contains("10.9.3.7".parse().unwrap()));
}

#[test]
fn nth_returns_only_addresses_of_the_network() {
    let small: Network = "10.0.0.4/31".parse().unwrap();
    assert_eq!(small.nth(1), "10.0.0.5".parse().ok());
    assert_eq!(small.nth(2), None);
    let last: Network = "255.255.255.255".parse().unwrap();
    assert_eq!(last.nth(1), None);
}
