//! What several syncs have left behind, and what the kernel is asked for.

use super::*;

const GONE: &str = "10.96.0.10:53 10.4.0.1:5353 goes";

#[test]
fn the_newer_word_counts() {
    let mut pending = change(Some(SHOP), Some(with(&["10.4.0.2"])));
    pending.check(&[GONE]);
    // It is back, and has new flows, before the next sweep.
    pending.merge(change(Some(with(&["10.4.0.2"])), Some(SHOP)));
    pending.check(&[
        "10.96.0.10:53 10.4.0.1:5353 stays",
        "10.96.0.10:53 10.4.0.9:5353 goes",
    ]);
    pending.merge(change(Some(SHOP), Some(with(&["10.4.0.1"]))));
    pending.check(&[
        "10.96.0.10:53 10.4.0.1:5353 stays",
        "10.96.0.10:53 10.4.0.2:5353 goes",
    ]);
    pending.merge(change(Some(with(&["10.4.0.1"])), None));
    pending.check(&[GONE, "10.96.0.10:53 10.96.0.10:53 stays"]);
}

#[test]
fn news_without_danger_start_no_look() {
    let mut pending = StaleCandidates::default();
    let news = change(Some(with(&["10.4.0.2"])), Some(SHOP));
    assert!(news.is_empty() && !news.affects_nothing());
    pending.merge(news);
    assert!(pending.affects_nothing());
}

#[test]
fn a_look_under_way_learns_and_grows_no_wider() {
    let mut looking = change(Some(SHOP), Some(with(&["10.4.0.2"])));
    looking.update(&change(Some(with(&["10.4.0.2"])), Some(SHOP)));
    looking.check(&["10.96.0.10:53 10.4.0.1:5353 stays"]);
    looking.update(&change(Some(at(&["10.96.0.11"])), None));
    assert_eq!(looking.len(), 1);
}

fn filters(shop: Shop) -> Vec<Filter> {
    change(None, Some(shop)).filters()
}

#[test]
fn the_kernel_is_asked_for_little() {
    let ip = |text: &str| Filter::To((parse_ip(text).unwrap(), 53).into());
    assert_eq!(filters(SHOP), [ip("10.96.0.10")]);
    let with_node_port = |ips| Shop {
        node_port: Some(30053),
        ..at(ips)
    };
    let more = with_node_port(&["10.96.0.10", "203.0.113.1", "198.51.100.1"]);
    let [first, second, third] = ["10.96.0.10", "198.51.100.1", "203.0.113.1"].map(ip);
    let node_port = Filter::ToPort(30053.try_into().unwrap());
    assert_eq!(filters(more), [first, second, third, node_port]);
    let most = with_node_port(&["10.96.0.10", "203.0.113.1", "198.51.100.1", "198.51.100.2"]);
    assert_eq!(filters(most), [Filter::Everything]);
    assert_eq!(StaleCandidates::default().filters(), []);
}
