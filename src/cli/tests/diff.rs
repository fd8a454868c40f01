//! Facts about a host that its rules show.

use super::*;
use crate::render::Masquerade;

/// Options for a host with these rules in `KUBE-FORWARD`, `KUBE-NODEPORTS` and `KUBE-POSTROUTING`.
fn adopted(forward: &str, node_ports: &str, postrouting: &str) -> Options {
    let save = format!(
        "*filter\n:KUBE-FORWARD - [0:0]\n{forward}\nCOMMIT\n\
         *nat\n:KUBE-NODEPORTS - [0:0]\n:KUBE-POSTROUTING - [0:0]\n{node_ports}\n{postrouting}\nCOMMIT\n"
    );
    let mut options = Options::defaults(IpFamily::V4);
    adopt_facts(&mut options, &RuleSet::parse(&save).unwrap());
    options
}

const DROP: &str = "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP";
const COUNTED_DROP: &str = "-A KUBE-FORWARD -m conntrack --ctstate INVALID \
     -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP";
const ACCEPT: &str = "-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT";
const NODE_PORT: &str = "-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-EXT-WEB";
const COUNTED_NODE_PORT: &str = "-A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m tcp --dport 30080 \
     -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-WEB";
const RANDOM: &str = "-A KUBE-POSTROUTING -j MASQUERADE --random-fully";
const PLAIN: &str = "-A KUBE-POSTROUTING -j MASQUERADE";

#[test]
fn facts_of_a_host_are_adopted_from_its_fixed_chains() {
    let defaults = Options::defaults(IpFamily::V4);
    assert_eq!(adopted(DROP, NODE_PORT, RANDOM), defaults);
    let expected = Options {
        counters: Counter::ALL.into(),
        ..defaults.clone()
    };
    assert_eq!(adopted(COUNTED_DROP, COUNTED_NODE_PORT, RANDOM), expected);
    // Without NodePorts, no rule shows their counter.
    assert_eq!(adopted(COUNTED_DROP, "", RANDOM), expected);
    let expected = Options {
        drops_invalid_packets: false,
        masquerade: Masquerade {
            is_random_fully: false,
            ..defaults.masquerade
        },
        ..defaults.clone()
    };
    assert_eq!(adopted(ACCEPT, NODE_PORT, PLAIN), expected);
    // Fixed chains are empty.
    assert_eq!(adopted("", NODE_PORT, PLAIN), defaults);
}
