//! The chains that are there whatever the Services are: masquerading, forwarding, the guard of
//! localhost NodePorts, and the rule that leads to NodePorts.
//!
//! Apart because these depend on options alone.

use std::net::IpAddr;

use super::counter::Counter;
use super::options::{InvalidPackets, LocalhostNodePorts, NodePortAddresses, Options};
use super::pen::Pen;
use super::stats::RuleCounts;
use crate::net::IpFamily;

/// The chains of the filter table that every full restore writes, besides [`FIREWALL`].
pub(super) const FILTER_CHAINS: [&str; 5] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-FORWARD",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
];

/// The chains of the nat table that every full restore writes.
pub(super) const NAT_CHAINS: [&str; 4] = [
    "KUBE-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    "KUBE-MARK-MASQ",
];

/// Kubelet's chain. It has to exist for both families; only IPv4 has anything to say in it.
pub const FIREWALL: &str = "KUBE-FIREWALL";

/// Empty chains in every table: while they are there, nobody has flushed us.
///
/// Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.36)
pub const CANARY: &str = "KUBE-PROXY-CANARY";

/// Whether `KUBE-FIREWALL` is ours to fill.
pub(super) fn fills_firewall(options: &Options) -> bool {
    options.family == IpFamily::V4 && options.localhost_node_ports == LocalhostNodePorts::Allowed
}

/// How many rules [`write_filter`] and [`write_nat`] write.
pub(super) fn rule_counts(options: &Options) -> RuleCounts {
    let invalid = options.invalid_packets == InvalidPackets::Dropped;
    RuleCounts {
        filter: 2 + u64::from(invalid) + u64::from(fills_firewall(options)),
        nat: 4,
    }
}

/// The rules of the filter table.
///
/// `route_localnet` lets packets for 127.0.0.0/8 in from outside, so that NodePorts can answer
/// there; the first rule keeps neighbors from reaching what else listens on localhost.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Drop the packets in INVALID state"
/// and "block incoming localnet connections" (v1.36)
pub(super) fn write_filter(buf: &mut Vec<u8>, options: &Options) {
    if fills_firewall(options) {
        Pen::append(buf, FIREWALL)
            .comment("block incoming localnet connections")
            .words("-d 127.0.0.0/8 ! -s 127.0.0.0/8")
            .words("-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT")
            .jump("DROP");
    }
    if options.invalid_packets == InvalidPackets::Dropped {
        let rule = Pen::append(buf, "KUBE-FORWARD").words("-m conntrack --ctstate INVALID");
        if options.counters.has(Counter::InvalidDropped) {
            rule.words(Counter::InvalidDropped.words()).jump("DROP");
        } else {
            rule.jump("DROP");
        }
    }
    let mark = options.masquerade.mark();
    Pen::append(buf, "KUBE-FORWARD")
        .comment("kubernetes forwarding rules")
        .words("-m mark --mark")
        .words(&format!("{mark}/{mark}"))
        .jump("ACCEPT");
    Pen::append(buf, "KUBE-FORWARD")
        .comment("kubernetes forwarding conntrack rule")
        .words("-m conntrack --ctstate RELATED,ESTABLISHED")
        .jump("ACCEPT");
}

/// The rules of the nat table: marked packets get this node's address as their source.
///
/// The mark is taken off again so that a packet that passes twice, as in an overlay network, is
/// not masqueraded twice.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Install the kubernetes-specific
/// postrouting rules" (v1.36)
pub(super) fn write_nat(buf: &mut Vec<u8>, options: &Options) {
    let mark = options.masquerade.mark();
    Pen::append(buf, "KUBE-POSTROUTING")
        .words("-m mark ! --mark")
        .words(&format!("{mark}/{mark}"))
        .jump("RETURN");
    Pen::append(buf, "KUBE-POSTROUTING")
        .words("-j MARK --xor-mark")
        .words(&mark)
        .end();
    let masquerade = Pen::append(buf, "KUBE-POSTROUTING")
        .comment("kubernetes service traffic requiring SNAT")
        .words("-j MASQUERADE");
    if options.masquerade.is_random_fully {
        masquerade.words("--random-fully").end();
    } else {
        masquerade.end();
    }
    Pen::append(buf, "KUBE-MARK-MASQ")
        .words("-j MARK --or-mark")
        .words(&mark)
        .end();
}

/// The rules that lead to NodePorts, each with its newline. They come last in `KUBE-SERVICES`, so
/// that a cluster IP is never taken for a NodePort of the node that has it.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Finally, tail-call to the nodePorts
/// chain" (v1.36)
pub(super) fn tail_rules(options: &Options) -> Vec<Box<[u8]>> {
    const NOTE: &str =
        "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
    let rule = |write: &dyn Fn(Pen<'_>)| {
        let mut buf = Vec::new();
        write(Pen::new(&mut buf));
        buf.into_boxed_slice()
    };
    match &options.node_port_addresses {
        NodePortAddresses::All => vec![rule(&|pen| {
            let pen = pen.comment(NOTE).words("-m addrtype --dst-type LOCAL");
            match (options.family, options.localhost_node_ports) {
                (IpFamily::V6, _) => pen.words("! -d ::1/128"),
                (IpFamily::V4, LocalhostNodePorts::Refused) => pen.words("! -d 127.0.0.0/8"),
                (IpFamily::V4, LocalhostNodePorts::Allowed) => pen,
            }
            .jump("KUBE-NODEPORTS");
        })],
        NodePortAddresses::Only(ips) => ips
            .iter()
            .filter(|ip| answers_node_ports(**ip, options))
            .map(|ip| rule(&|pen| pen.comment(NOTE).destination(*ip).jump("KUBE-NODEPORTS")))
            .collect(),
    }
}

/// Loopback addresses answer only if localhost NodePorts are allowed, and never on IPv6: there is
/// no `route_localnet` there.
fn answers_node_ports(ip: IpAddr, options: &Options) -> bool {
    !ip.is_loopback()
        || (options.family == IpFamily::V4
            && options.localhost_node_ports == LocalhostNodePorts::Allowed)
}
