//! The configuration as a file, and that file read again.

use super::*;

/// As kube-proxy writes its defaults, but for the gap between two syncs.
const DEFAULT: &str = include_str!("../../../tests/config/default.yaml");

#[test]
fn defaults_are_written_as_kube_proxy_writes_them() {
    assert_eq!(configured("").unwrap().configuration.to_yaml(), DEFAULT);
}

#[test]
fn what_is_written_is_read_as_the_same() {
    for flags in [
        "",
        "--cluster-cidr=10.0.0.0/8,fd00::/8 --nodeport-addresses=10.0.0.0/8,11.0.0.0/8",
        "--detect-local-mode=BridgeInterface --pod-bridge-interface=b --kube-api-qps=0.5",
        "--iptables-min-sync-period=2s --iptables-sync-period=90s --conntrack-udp-timeout=1.5s",
        "--feature-gates=AllowServiceExternalIPs=false --hostname-override=Node-7 --profiling",
        "--v=4 --vmodule=a*=1 --ipvs-exclude-cidrs=10.0.0.0/8 --ipvs-strict-arp",
        "--bind-address=fd00::1 --metrics-bind-address=:: --oom-score-adj=0",
        "--feature-gates=AllAlpha=true --log-json-info-buffer-size=64Ki --log-text-split-stream",
        "--iptables-localhost-nodeports=false --iptables-masquerade-bit=0 --masquerade-all",
    ] {
        let typed = configured(flags).unwrap();
        let text = typed.configuration.to_yaml();
        let read = with_text("", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read.configuration, typed.configuration, "{flags}\n{text}");
        assert_eq!(read.rules.node_name, typed.rules.node_name);
        assert_eq!(read.rules.surroundings, typed.rules.surroundings);
        assert_eq!(read.rules.source, typed.rules.source);
        assert_eq!(read.pacer.gap, typed.pacer.gap);
        assert_eq!((read.serving, read.node), (typed.serving, typed.node));
        assert_eq!(read.configuration.to_yaml(), text);
    }
}

/// A file has no word for it: there, zero is the default.
#[test]
fn no_gap_at_all_can_only_be_a_flag() {
    let typed = configured("--iptables-min-sync-period=0").unwrap();
    let read = with_text("", &typed.configuration.to_yaml()).unwrap();
    assert_ne!(read.pacer.gap, typed.pacer.gap);
}
