//! What several syncs have left behind, and what the kernel is asked for.

use super::*;

const GONE: &str = "10.96.0.10:53 10.4.0.1:5353 goes";

#[test]
fn the_newer_word_counts() {
    let mut pending = change(Some(SHOP), Some(with(&["10.4.0.2"])));
    check(&pending, &[GONE]);
    // It is back, and has new flows, before the next sweep.
    pending.merge(change(Some(with(&["10.4.0.2"])), Some(SHOP)));
    check(
        &pending,
        &[
            "10.96.0.10:53 10.4.0.1:5353 stays",
            "10.96.0.10:53 10.4.0.9:5353 goes",
        ],
    );
    pending.merge(change(Some(SHOP), Some(with(&["10.4.0.1"]))));
    check(
        &pending,
        &[
            "10.96.0.10:53 10.4.0.1:5353 stays",
            "10.96.0.10:53 10.4.0.2:5353 goes",
        ],
    );
    pending.merge(change(Some(with(&["10.4.0.1"])), None));
    check(&pending, &[GONE, "10.96.0.10:53 10.96.0.10:53 stays"]);
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
    check(&looking, &["10.96.0.10:53 10.4.0.1:5353 stays"]);
    let elsewhere = Shop {
        ips: &["10.96.0.11"],
        ..SHOP
    };
    looking.update(&change(Some(elsewhere), None));
    assert_eq!(looking.len(), 1);
}

fn filters(shop: Shop) -> Vec<Filter> {
    change(None, Some(shop)).filters()
}

#[test]
fn the_kernel_is_asked_for_little() {
    let ip = |text: &str| Filter::To((parse_ip(text).unwrap(), 53).into());
    assert_eq!(filters(SHOP), [ip("10.96.0.10")]);
    let more = Shop {
        ips: &["10.96.0.10", "203.0.113.1", "198.51.100.1"],
        node_port: Some(30053),
        ..SHOP
    };
    let node_port = Filter::ToPort(30053.try_into().unwrap());
    assert_eq!(
        filters(more.clone()),
        [
            ip("10.96.0.10"),
            ip("198.51.100.1"),
            ip("203.0.113.1"),
            node_port
        ]
    );
    let most = Shop {
        ips: &["10.96.0.10", "203.0.113.1", "198.51.100.1", "198.51.100.2"],
        ..more
    };
    assert_eq!(filters(most), [Filter::Everything]);
    assert_eq!(StaleCandidates::default().filters(), []);
}
