//! Facts about a host that its rules show.

use super::with;
use crate::inspect::diff::{HostSettings, InvalidPacketHandling};
use crate::rules::RuleSet;

#[test]
fn host_settings_are_read_from_fixed_chains() {
    let plain = HostSettings {
        invalid: InvalidPacketHandling::Dropped,
        counts_localhost: false,
        is_random_fully: true,
    };
    assert_eq!(HostSettings::read(&with(&[])), Some(plain));
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
    let expected = HostSettings {
        invalid: InvalidPacketHandling::Counted,
        counts_localhost: true,
        ..plain
    };
    assert_eq!(HostSettings::read(&counting), Some(expected));
    let liberal = with(&[
        (
            "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
            "-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT",
        ),
        (" --random-fully", ""),
    ]);
    let expected = HostSettings {
        invalid: InvalidPacketHandling::Forwarded,
        is_random_fully: false,
        ..plain
    };
    assert_eq!(HostSettings::read(&liberal), Some(expected));
    assert_eq!(HostSettings::read(&RuleSet::default()), None);
}
