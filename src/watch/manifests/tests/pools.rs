//! Tests of `pools`.

use super::*;

fn pool(v4: &str, v6: &str, taken: &[&str]) -> IpPool {
    let ranges = PerFamily {
        v4: v4.parse().unwrap(),
        v6: v6.parse().unwrap(),
    };
    let taken = taken.iter().map(|ip| ip.parse().unwrap());
    IpPool::new(ranges, taken.collect())
}

#[track_caller]
fn check(v4: &str, v6: &str, family: IpFamily, expected: &str) {
    let found = pool(v4, v6, &[]).allocate("shop/cart", family);
    assert_eq!(found.unwrap().to_string(), expected);
}

/// Literal addresses, so that no release changes them.
#[test]
fn a_cluster_ip_follows_from_the_name() {
    check(
        "10.96.0.0/12",
        "fd00:10:96::/112",
        IpFamily::V4,
        "10.108.76.165",
    );
    check(
        "10.96.0.0/12",
        "fd00:10:96::/112",
        IpFamily::V6,
        "fd00:10:96::dc5",
    );
    check("10.96.0.7/32", "::/0", IpFamily::V4, "10.96.0.7");
}

#[test]
fn taken_addresses_are_skipped() {
    let mut range = pool("10.96.0.0/29", "fd00::/126", &["10.96.0.1", "10.96.0.6"]);
    let mut allocated: Vec<String> = (0..4)
        .map(|number| range.allocate(&number.to_string(), IpFamily::V4))
        .map(|ip| ip.unwrap().to_string())
        .collect();
    allocated.sort();
    assert_eq!(
        allocated,
        ["10.96.0.2", "10.96.0.3", "10.96.0.4", "10.96.0.5"]
    );
    assert_eq!(range.allocate("5", IpFamily::V4), None);
    assert!(range.allocate("5", IpFamily::V6).is_some());
}

#[test]
fn node_ports_follow_from_names_and_taken_ones_are_skipped() {
    let mut ports = PortPool::new(NodePortRange::DEFAULT, HashSet::new());
    // A literal number, so that no release changes it.
    assert_eq!(ports.allocate("shop/cart:80"), Some(31800));
    assert_eq!(ports.allocate("shop/cart:80"), Some(31801));
    let mut ports = PortPool::new("7-9".parse().unwrap(), HashSet::from([8]));
    let mut allocated = [ports.allocate("a"), ports.allocate("b")];
    allocated.sort_unstable();
    assert_eq!(allocated, [Some(7), Some(9)]);
    assert_eq!(ports.allocate("c"), None);
}

#[test]
fn ranges_of_node_ports_are_parsed() {
    for good in ["30000-32767", "1-65535", "80-80"] {
        assert_eq!(good.parse::<NodePortRange>().unwrap().to_string(), good);
    }
    for bad in ["", "1", "0-5", "5-4", "1-65536", "a-b", "-", "1-2-3"] {
        assert!(bad.parse::<NodePortRange>().is_err(), "{bad}");
    }
}
