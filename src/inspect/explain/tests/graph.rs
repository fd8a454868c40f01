//! Graphs of packets that are lost after the choice of an endpoint.

use std::fmt::Write as _;

use super::{SAVED, assert_contains, rendered};
use crate::inspect::explain::{svg, tree};

const CLOSED: &str = "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n";

#[test]
fn endpoints_and_shares_are_drawn_if_all_packets_are_dropped() {
    let text = rendered(&format!("{CLOSED}{SAVED}"), "10.96.0.10:80", tree);
    let expected = "\
├── from a pod (such as 10.4.0.3)
│   └── nat PREROUTING
│       └── KUBE-SERVICES
│           └── KUBE-SVC-WEB
│               ├── 1/3: 10.4.0.1:8080  KUBE-SEP-WEB1
│               │   └── filter FORWARD
│               │       └── dropped  no rule accepts it, and the policy of filter FORWARD is DROP
│               ├── 1/3: 10.4.0.2:8080  KUBE-SEP-WEB2
│               │   └── filter FORWARD
│               │       └── dropped  no rule accepts it, and the policy of filter FORWARD is DROP
│               └── 1/3: 10.4.1.3:8080  KUBE-SEP-WEB3
│                   └── filter FORWARD
│                       └── dropped  no rule accepts it, and the policy of filter FORWARD is DROP
";
    assert!(text.contains(expected), "{text}");
    let text = rendered(&format!("{CLOSED}{SAVED}"), "10.96.0.10:80", svg);
    let parts = ["1/3", "10.4.0.1:8080", "10.4.1.3:8080", "filter FORWARD"];
    assert_contains(&text, &parts);
}

/// A random rule splits packets that end alike at the same rule.
#[test]
fn shares_of_equal_branches_are_added_up() {
    let rules = "-A FORWARD -m statistic --mode random --probability 0.5 -j MARK --set-mark 1\n\
                 -A FORWARD -j REJECT\n";
    let saved = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n");
    let text = rendered(&saved, "192.0.2.1:80", tree);
    assert_eq!(text.matches("── rejected").count(), 1, "{text}");
}

#[test]
fn a_picture_has_a_limited_width_and_colors_for_dark_pages() {
    let chain = |n| format!("a-chain-of-another-program-{n}");
    let mut saved = String::from("*filter\n:FORWARD ACCEPT [0:0]\n");
    for n in 0..30 {
        // Writing to a String cannot fail.
        let _ = writeln!(saved, ":{} - [0:0]", chain(n));
    }
    let _ = writeln!(saved, "-A FORWARD -j {}", chain(0));
    for n in 0..30 {
        let comment = "a rule with a comment that is long ".repeat(6);
        let target = if n < 29 {
            chain(n + 1)
        } else {
            "DROP".to_owned()
        };
        let _ = writeln!(
            saved,
            "-A {} -m comment --comment \"{comment}\" -j {target}",
            chain(n)
        );
    }
    let text = rendered(&format!("{saved}COMMIT\n{SAVED}"), "10.96.0.10:80", svg);
    let widths = text.split("width=\"").skip(1);
    let widths = widths.filter_map(|rest| rest.split('"').next()?.parse::<usize>().ok());
    let widest = widths.max().unwrap();
    assert!((1000..=1200).contains(&widest), "{widest}");
    assert_contains(&text, &["@media (prefers-color-scheme:dark)"]);
    // One client is below the other.
    let clients = text.lines().filter(|line| line.contains("box client"));
    assert!(clients.clone().count() > 1, "{text}");
    assert!(
        clients.into_iter().all(|line| line.contains("x=\"20\"")),
        "{text}"
    );
}
