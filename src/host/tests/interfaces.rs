//! Tests of `interfaces`.

use super::*;

#[test]
fn has_interface_finds_interfaces_by_name() {
    assert!(has_interface("lo"));
    assert!(!has_interface("deltaproxy-none"));
}

#[test]
fn loopback_addresses_are_listed() {
    let all = interface_addresses().unwrap();
    assert!(all.is_sorted());
    let loopback = all.iter().find(|address| address.interface == "lo");
    assert!(loopback.is_some_and(|address| address.ip.is_loopback()));
    assert!(
        local_addresses()
            .unwrap()
            .contains(&IpAddr::from([127, 0, 0, 1]))
    );
}
