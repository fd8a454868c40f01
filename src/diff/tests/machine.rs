//! What only a machine knows.

use super::with;
use crate::diff::{Invalid, Machine};
use crate::rules::RuleSet;

#[test]
fn rules_show_what_the_machine_can_do() {
    let plain = Machine {
        invalid: Invalid::Dropped,
        counts_localhost: false,
        is_random_fully: true,
    };
    assert_eq!(Machine::read(&with(&[])), Some(plain));
    let counting = with(&[
        (
            "--ctstate INVALID",
            "--ctstate INVALID -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts",
        ),
        (
            "-A KUBE-NODEPORTS -p tcp",
            "-A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-WEB\n-A KUBE-NODEPORTS -p tcp",
        ),
    ]);
    let expected = Machine {
        invalid: Invalid::Counted,
        counts_localhost: true,
        ..plain
    };
    assert_eq!(Machine::read(&counting), Some(expected));
    let liberal = with(&[
        (
            "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
            "-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT",
        ),
        (" --random-fully", ""),
    ]);
    let expected = Machine {
        invalid: Invalid::Forwarded,
        is_random_fully: false,
        ..plain
    };
    assert_eq!(Machine::read(&liberal), Some(expected));
    assert_eq!(Machine::read(&RuleSet::default()), None);
}
