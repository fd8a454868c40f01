//! Writes the rules that depend on options alone: those of the fixed chains (masquerading,
//! forwarding, the protection of localhost), and the jumps from `KUBE-SERVICES` to
//! `KUBE-NODEPORTS`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::options::{Counter, NodePortAddresses, Options};
use super::service::{RuleCounts, RuleWriter};
use crate::net::IpFamily;
use crate::rules::Table;
use crate::ruleset::{
    KUBE_FIREWALL, KUBE_FORWARD, KUBE_MARK_MASQ, KUBE_NODEPORTS, KUBE_POSTROUTING, KUBE_SERVICES,
    NODE_PORTS_COMMENT,
};

/// Reports whether the proxy has a rule in `KUBE-FIREWALL`.
pub(super) fn fills_kube_firewall(options: &Options) -> bool {
    options.accepts_localhost_node_ports()
}

/// Returns the fixed chains of a table that the proxy fills.
pub(super) fn names(table: Table, options: &Options) -> &'static [&'static str] {
    match table {
        Table::Filter if fills_kube_firewall(options) => &[KUBE_FORWARD, KUBE_FIREWALL],
        Table::Filter => &[KUBE_FORWARD],
        Table::Nat => &[KUBE_POSTROUTING, KUBE_MARK_MASQ],
        Table::Mangle => &[],
    }
}

/// Returns the numbers of rules that [`write_filter`] and [`write_nat`] write.
pub(super) fn rule_counts(options: &Options) -> RuleCounts {
    RuleCounts {
        filter: 2
            + u64::from(options.drops_invalid_packets)
            + u64::from(fills_kube_firewall(options)),
        nat: 4,
    }
}

/// Writes the rules of the filter table.
///
/// `route_localnet`, which NodePorts on localhost require, lets packets for 127.0.0.0/8 in from
/// outside; the first rule keeps other hosts from reaching programs that listen on localhost.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Drop the packets in INVALID state"
/// and "block incoming localnet connections" (v1.37)
pub(super) fn write_filter(buf: &mut Vec<u8>, options: &Options) {
    if fills_kube_firewall(options) {
        RuleWriter::append(buf, KUBE_FIREWALL)
            .comment("block incoming localnet connections")
            .words("-d 127.0.0.0/8 ! -s 127.0.0.0/8")
            .words("-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT")
            .jump("DROP");
    }
    if options.drops_invalid_packets {
        let rule = RuleWriter::append(buf, KUBE_FORWARD).words("-m conntrack --ctstate INVALID");
        if options.counters.contains(&Counter::InvalidDropped) {
            rule.words(Counter::InvalidDropped.match_text())
                .jump("DROP");
        } else {
            rule.jump("DROP");
        }
    }
    let mark = options.masquerade.mark();
    RuleWriter::append(buf, KUBE_FORWARD)
        .comment("kubernetes forwarding rules")
        .words("-m mark --mark")
        .words(&format!("{mark}/{mark}"))
        .jump("ACCEPT");
    RuleWriter::append(buf, KUBE_FORWARD)
        .comment("kubernetes forwarding conntrack rule")
        .words("-m conntrack --ctstate RELATED,ESTABLISHED")
        .jump("ACCEPT");
}

/// Writes the rules of the nat table: marked packets get this node's address as their source.
///
/// The mark is removed before, so that a packet that traverses the chain twice, as in an overlay
/// network, is not masqueraded twice.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Install the kubernetes-specific
/// postrouting rules" (v1.37)
pub(super) fn write_nat(buf: &mut Vec<u8>, options: &Options) {
    let mark = options.masquerade.mark();
    RuleWriter::append(buf, KUBE_POSTROUTING)
        .words("-m mark ! --mark")
        .words(&format!("{mark}/{mark}"))
        .jump("RETURN");
    RuleWriter::append(buf, KUBE_POSTROUTING)
        .words("-j MARK --xor-mark")
        .words(&mark)
        .end();
    let masquerade = RuleWriter::append(buf, KUBE_POSTROUTING)
        .comment("kubernetes service traffic requiring SNAT")
        .words("-j MASQUERADE");
    if options.masquerade.is_random_fully {
        masquerade.words("--random-fully").end();
    } else {
        masquerade.end();
    }
    RuleWriter::append(buf, KUBE_MARK_MASQ)
        .words("-j MARK --or-mark")
        .words(&mark)
        .end();
}

/// Returns the jumps to `KUBE-NODEPORTS`, lines with `-A KUBE-SERVICES`. They come last in that
/// chain: an address that is both a cluster IP and assigned to an interface of the node must be
/// treated as a cluster IP.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Finally, tail-call to the nodePorts
/// chain" (v1.37)
pub(crate) fn node_ports_jumps(options: &Options) -> String {
    let mut buf = Vec::new();
    match &options.node_port_addresses {
        NodePortAddresses::All => {
            let rule = RuleWriter::append(&mut buf, KUBE_SERVICES)
                .comment(NODE_PORTS_COMMENT)
                .words("-m addrtype --dst-type LOCAL");
            match options.family {
                IpFamily::V6 => rule.words("! -d ::1/128"),
                IpFamily::V4 if options.has_localhost_node_ports => rule,
                IpFamily::V4 => rule.words("! -d 127.0.0.0/8"),
            }
            .jump(KUBE_NODEPORTS);
        }
        NodePortAddresses::Only(ips) => {
            let is_accepted =
                |ip: &&IpAddr| !ip.is_loopback() || options.accepts_localhost_node_ports();
            for ip in ips.iter().filter(is_accepted) {
                RuleWriter::append(&mut buf, KUBE_SERVICES)
                    .comment(NODE_PORTS_COMMENT)
                    .destination(*ip)
                    .jump(KUBE_NODEPORTS);
            }
        }
    }
    String::from_utf8(buf).unwrap_or_default()
}

/// Returns the fixed chains that the proxy fills.
pub(crate) fn all_fixed_chains(options: &Options) -> BTreeSet<(Table, &'static str)> {
    let tables = Table::ALL.into_iter();
    let chains = tables.flat_map(|table| {
        let of_table = names(table, options).iter();
        of_table.map(move |chain| (table, *chain))
    });
    chains.collect()
}

/// Returns the rule of `KUBE-FIREWALL` that keeps other hosts from reaching localhost, without
/// `-A KUBE-FIREWALL`; `None` if these options need none.
pub(crate) fn localnet_drop_rule(options: &Options) -> Option<String> {
    let desired = desired_rules(Table::Filter, options);
    let mut lines = desired.lines();
    let rule = lines.find_map(|line| line.strip_prefix("-A KUBE-FIREWALL "))?;
    Some(rule.to_owned())
}

/// Returns the rules that a full restore writes into the fixed chains.
pub(super) fn desired_rules(table: Table, options: &Options) -> String {
    let mut buf = Vec::new();
    match table {
        Table::Filter => write_filter(&mut buf, options),
        Table::Nat => write_nat(&mut buf, options),
        Table::Mangle => {}
    }
    String::from_utf8_lossy(&buf).into_owned()
}
