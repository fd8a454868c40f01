//! Tests of `backend`.

use super::*;

#[test]
fn declarations_of_two_chains_are_hints() {
    for line in [
        ":KUBE-IPTABLES-HINT - [0:0]",
        ":KUBE-KUBELET-CANARY - [7:420]",
    ] {
        assert!(is_hint(line), "{line}");
    }
    for line in [
        ":KUBE-KUBELET-CANARY2 - [0:0]",
        "-A KUBE-IPTABLES-HINT -j RETURN",
        "-A OUTPUT -j KUBE-IPTABLES-HINT",
        "KUBE-IPTABLES-HINT",
        "-N KUBE-IPTABLES-HINT",
    ] {
        assert!(!is_hint(line), "{line}");
    }
}
