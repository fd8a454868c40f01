//! Writes the rules that depend on options alone: those of the fixed chains (masquerading,
//! forwarding, the protection of localhost), and the jumps from `KUBE-SERVICES` to
//! `KUBE-NODEPORTS`. Checks and repairs the *guarded* chains, which every Service depends on: fixed
//! chains, canaries, and the built-in chains with entry jumps.
//!
//! The check is a sample of the table: it does not read the chains that hold rules of Services,
//! but a flush or deletion of the table also removes rules and chains that it does read.
//!
//! Differs from upstream: kube-proxy checks only an empty canary chain of the mangle table, so
//! that a flush of the nat table, or one that keeps the chains (`iptables -F`), goes unnoticed for
//! up to an hour. In exchange, kube-proxy writes the fixed chains again at every sync.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::live::{LiveChains, LiveRules};
use super::options::{Counter, NodePortAddresses, Options};
use super::service::{RuleCounts, RuleWriter, write_chain_declarations, write_line};
use crate::net::IpFamily;
use crate::rules::{Rule, Table};
use crate::ruleset::{
    FILTER_CHAINS, JUMPS, Jump, KUBE_FIREWALL, KUBE_FORWARD, KUBE_MARK_MASQ, KUBE_NODEPORTS,
    KUBE_POSTROUTING, KUBE_PROXY_CANARY, KUBE_SERVICES, NAT_CHAINS, NODE_PORTS_COMMENT,
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

/// Returns the guarded chains of `table`, the proxy's before the built-in ones: `iptables-nft`
/// aborts at an unprintable rule. If that rule is in a built-in chain, the proxy's chains have
/// been printed by then.
pub fn guarded_chains(table: Table, options: &Options) -> Vec<&'static str> {
    let mut chains = vec![KUBE_PROXY_CANARY];
    chains.extend(names(table, options));
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if !chains.contains(&jump.from) {
            chains.push(jump.from);
        }
    }
    chains
}

/// Condition of the guarded chains of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GuardedChainState {
    /// The canary is missing, or all entry jumps: the table was flushed.
    pub is_flushed: bool,
    /// Missing entry jumps.
    pub missing_jumps: Vec<&'static Jump>,
    /// Fixed chains that lack some of their desired rules, or hold them in another order.
    pub incomplete_chains: Vec<&'static str>,
    /// Fixed chains that hold third-party rules besides the desired ones. If the listing of a chain
    /// ends at an unprintable rule, it is unknown whether the desired rules are complete.
    pub edited_chains: Vec<&'static str>,
    /// Entry jumps that were not listed, but may exist: the listing of their chain ends at an
    /// unprintable rule.
    pub unlisted_jumps: Vec<&'static Jump>,
}

impl GuardedChainState {
    /// Compares a listing of the guarded chains with the rules that a restore with `options`
    /// writes. A chain in `partly_listed_chains` was listed only up to an unprintable rule.
    pub(crate) fn of(
        table: Table,
        listing: &str,
        partly_listed_chains: &[String],
        options: &Options,
    ) -> Self {
        let is_partly_listed = |chain: &str| partly_listed_chains.iter().any(|name| name == chain);
        let desired = desired_rules(table, options);
        let mut state = Self {
            is_flushed: !is_partly_listed(KUBE_PROXY_CANARY) && !has_canary(listing),
            ..Self::default()
        };
        for chain in names(table, options) {
            let mut live = rules_of(chain, listing);
            let begins_as_desired = rules_of(chain, &desired).all(|rule| live.next() == Some(rule));
            // No rule of the proxy is unprintable: a chain listed in part has a third-party rule.
            let has_others = is_partly_listed(chain) || live.next().is_some();
            if begins_as_desired && (*chain == KUBE_FIREWALL || !has_others) {
                continue;
            }
            if is_partly_listed(chain) || has_desired_in_order(chain, listing, &desired) {
                state.edited_chains.push(chain);
            } else {
                state.incomplete_chains.push(chain);
            }
        }
        let mut live = LiveChains::default();
        live.read_table(table, listing);
        for jump in live.missing_entry_jumps(table) {
            if is_partly_listed(jump.from) {
                state.unlisted_jumps.push(jump);
            } else {
                state.missing_jumps.push(jump);
            }
        }
        let jumps = JUMPS.iter().filter(|jump| jump.table == table).count();
        state.is_flushed |= jumps > 0 && state.missing_jumps.len() == jumps;
        state
    }
}

/// Reports whether the guarded chains in `listing` hold the rules that a restore with `options`
/// writes. Allows third-party rules in built-in chains, and after the proxy's in `KUBE-FIREWALL`:
/// kubelets before 1.28 append one of their own, and would do so again each time it is deleted.
pub fn has_desired_rules(table: Table, listing: &str, options: &Options) -> bool {
    GuardedChainState::of(table, listing, &[], options) == GuardedChainState::default()
}

/// Reports whether the guarded chains hold the rules that a restore with `options` writes. Allows
/// third-party rules only in built-in chains, and in a `KUBE-FIREWALL` without a rule of the proxy.
pub(super) fn has_only_desired_rules(table: Table, listing: &str, options: &Options) -> bool {
    let has_others = |chain: &&str| {
        let live = rules_of(chain, listing).count();
        live > rules_of(chain, &desired_rules(table, options)).count()
    };
    has_desired_rules(table, listing, options) && !names(table, options).iter().any(has_others)
}

/// Reports whether the filter and nat tables have all shared chains, and the rules of fixed chains
/// and the entry jumps that a full restore writes.
fn has_shared_chains(rules: &LiveRules, options: &Options) -> bool {
    let are_complete = |table, chains: &[&str]| {
        let listing = rules.listing(table);
        chains.iter().all(|chain| rules.has(table, chain))
            && has_only_desired_rules(table, listing, options)
    };
    rules.has(Table::Filter, KUBE_FIREWALL)
        && are_complete(Table::Filter, &FILTER_CHAINS)
        && are_complete(Table::Nat, &NAT_CHAINS)
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

/// Returns the fixed chains and entry jumps to write after a reading of whole tables: all guarded
/// chains if one of them is damaged, otherwise none. `KUBE-FIREWALL` stays as it is if the proxy
/// has no rule in it.
pub(super) fn guarded_damage(
    read: &LiveRules,
    live: &LiveChains,
    options: &Options,
) -> (BTreeSet<(Table, &'static str)>, Vec<&'static Jump>) {
    if has_shared_chains(read, options) {
        return (BTreeSet::new(), Vec::new());
    }
    let canaries = Table::ALL.map(|table| (table, KUBE_PROXY_CANARY));
    let firewall = (!live.has_kube_firewall).then_some((Table::Filter, KUBE_FIREWALL));
    let chains = all_fixed_chains(options).into_iter().chain(canaries);
    let missing = JUMPS.iter().filter(|jump| !live.has(jump));
    (chains.chain(firewall).collect(), missing.collect())
}

/// Returns a payload that writes these fixed chains again, inserts these entry jumps at the top of
/// their chains, and changes nothing else.
pub(crate) fn repair_payload(
    chains: &BTreeSet<(Table, &'static str)>,
    jumps: &[&'static Jump],
    options: &Options,
) -> Vec<u8> {
    let mut payload = Vec::new();
    for table in Table::ALL {
        let of_table = chains.iter().filter(|(of, _)| *of == table);
        let names: Vec<&str> = of_table.map(|(_, chain)| *chain).collect();
        let mut lost = JUMPS
            .iter()
            .filter(|jump| jump.table == table && jumps.contains(jump))
            .peekable();
        if names.is_empty() && lost.peek().is_none() {
            continue;
        }
        write_line(&mut payload, &["*", table.as_str()]);
        write_chain_declarations(&mut payload, &names);
        for rule in desired_rules(table, options).lines() {
            let chain = rule
                .strip_prefix("-A ")
                .and_then(|rule| rule.split(' ').next());
            if chain.is_some_and(|chain| names.contains(&chain)) {
                write_line(&mut payload, &[rule]);
            }
        }
        for jump in lost {
            write_line(&mut payload, &["-I ", jump.from, " ", jump.rule]);
        }
        write_line(&mut payload, &["COMMIT"]);
    }
    payload
}

/// Returns the rule of `KUBE-FIREWALL` that keeps other hosts from reaching localhost, without
/// `-A KUBE-FIREWALL`; `None` if these options need none.
pub(crate) fn localnet_drop_rule(options: &Options) -> Option<String> {
    let desired = desired_rules(Table::Filter, options);
    let mut lines = desired.lines();
    let rule = lines.find_map(|line| line.strip_prefix("-A KUBE-FIREWALL "))?;
    Some(rule.to_owned())
}

fn has_canary(listing: &str) -> bool {
    let canary = format!("-N {KUBE_PROXY_CANARY}");
    listing.lines().any(|line| line == canary)
}

/// Reports whether a chain holds all desired rules in their order. Allows any rules before,
/// between and after them.
fn has_desired_in_order(chain: &str, listing: &str, desired: &str) -> bool {
    let mut live = rules_of(chain, listing);
    rules_of(chain, desired).all(|rule| live.any(|live| live == rule))
}

/// Returns the rules that a full restore writes into the fixed chains.
fn desired_rules(table: Table, options: &Options) -> String {
    let mut buf = Vec::new();
    match table {
        Table::Filter => write_filter(&mut buf, options),
        Table::Nat => write_nat(&mut buf, options),
        Table::Mangle => {}
    }
    String::from_utf8_lossy(&buf).into_owned()
}

/// Returns the rules of one chain; `None` for a rule that cannot be parsed, which is a third-party
/// one.
fn rules_of<'a>(chain: &'a str, text: &'a str) -> impl Iterator<Item = Option<Rule>> + 'a {
    text.lines().filter_map(move |line| {
        let (found, spec) = line.strip_prefix("-A ")?.split_once(' ')?;
        (found == chain).then(|| spec.parse().ok())
    })
}
