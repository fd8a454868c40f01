//! Puts a whole ruleset into the other form of dispatch: trees into flat chains, and flat chains
//! into trees.
//!
//! The rules may be those of another proxy, and nothing is restored into the kernel: `explain`
//! compares how many rules a packet traverses in the two forms.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::dispatch_tree::DispatchTree;
use crate::model::ServiceName;
use crate::net::Port;
use crate::render::options::{PartialRestore, TreeThresholds};
use crate::render::service::{AppliedService, DispatchRule, write_line};
use crate::rules::{Match, Rule, RuleSet};
use crate::ruleset::{
    DispatchChain, DispatchDestination, DispatchForm, KUBE_NODEPORTS, PortComment, has_trees,
    inline_trees,
};

/// Converts trees to flat chains, or flat chains to trees; returns the new form and the rules.
/// `None` for the reasons given at [`with_trees`].
pub(crate) fn in_other_form(rules: &RuleSet) -> Option<(DispatchForm, RuleSet)> {
    if has_trees(rules) {
        return Some((DispatchForm::Flat, inline_trees(rules)));
    }
    let with_trees = with_trees(rules, TreeThresholds::TREE)?;
    Some((DispatchForm::Tree, with_trees))
}

/// Returns rules with trees of all dispatch chains that have more rules than the thresholds; `None`
/// if none has, or if a rule cannot be restored because it could not be parsed.
pub fn with_trees(rules: &RuleSet, thresholds: TreeThresholds) -> Option<RuleSet> {
    let trees = DispatchChain::ALL.into_iter();
    let trees: Vec<String> = trees
        .filter_map(|dispatch| tree_payload(rules, dispatch, thresholds))
        .collect();
    if trees.is_empty() {
        return None;
    }
    let mut with_trees = rules.clone();
    for payload in trees {
        with_trees.apply(&payload).ok()?;
    }
    Some(with_trees)
}

/// Renders the dispatch chain as a tree, in a payload that replaces it; `None` if it stays flat.
fn tree_payload(
    rules: &RuleSet,
    dispatch: DispatchChain,
    thresholds: TreeThresholds,
) -> Option<String> {
    let chain = rules.chain(dispatch.table(), dispatch.name())?;
    // The jump to NodePorts comes last: an address of the node may be a Service's.
    let jumps_to_node_ports = |rule: &&Rule| rule.target_chain() == Some(KUBE_NODEPORTS);
    let (last, of_services): (Vec<&Rule>, Vec<&Rule>) =
        chain.rules.iter().partition(jumps_to_node_ports);
    let count = of_services.len() as u64;
    if thresholds.form(dispatch, count, DispatchForm::Flat) == DispatchForm::Flat {
        return None;
    }
    // Entered as the rules of one Service: those of one destination keep their order.
    let service = ServiceName::new("all", "services");
    let cluster_ips: BTreeSet<IpAddr> = of_services
        .iter()
        .filter(|rule| is_for_cluster_ip(dispatch, rule))
        .filter_map(|rule| address(rule))
        .collect();
    let of_services: Vec<DispatchRule> = of_services
        .into_iter()
        .map(|rule| dispatch_rule(dispatch, &cluster_ips, rule))
        .collect();
    let last_rules = last.iter();
    let last_rules = last_rules.map(|rule| format!("-A {} {rule}\n", dispatch.name()));
    let mut tree = DispatchTree::new(dispatch, last_rules.collect());
    tree.replace(&service, &[], &of_services);
    let service_rules = AppliedService {
        dispatch: of_services.into(),
        ..AppliedService::default()
    };
    let services = BTreeMap::from([(service, service_rules)]);
    let (written, _) = tree.render(PartialRestore::ChangedChains, &services);
    let mut payload = Vec::new();
    write_line(&mut payload, &["*", dispatch.table().as_str()]);
    for chain in written {
        chain.write(&mut payload);
    }
    write_line(&mut payload, &["COMMIT"]);
    String::from_utf8(payload).ok()
}

fn dispatch_rule(
    dispatch: DispatchChain,
    cluster_ips: &BTreeSet<IpAddr>,
    rule: &Rule,
) -> DispatchRule {
    let destination = match dispatch {
        DispatchChain::FilterNodePorts | DispatchChain::NatNodePorts => port(rule),
        DispatchChain::FilterExternalServices if rule.destination.is_none() => port(rule),
        // All rules of one address count as one kind, so that they stay together in their order: in
        // the rules of another proxy, several may match the same packet.
        _ => address(rule).map(|ip| {
            if cluster_ips.contains(&ip) {
                DispatchDestination::ClusterIp(ip)
            } else {
                DispatchDestination::ExternalIp(ip)
            }
        }),
    };
    DispatchRule {
        chain: dispatch,
        destination: destination.unwrap_or(DispatchDestination::SeveralOrUnknown),
        text: as_rendered(rule).into_bytes().into(),
    }
}

/// Returns the text of a rule as the proxy renders it: a single address has no `/32` or `/128`. The
/// shape of a tree depends on the length of the text.
fn as_rendered(rule: &Rule) -> String {
    let text = format!(" {rule}\n");
    let Some(ip) = address(rule) else {
        return text;
    };
    let len = if ip.is_ipv4() { 32 } else { 128 };
    text.replacen(&format!(" -d {ip}/{len} "), &format!(" -d {ip} "), 1)
}

/// Reports whether a rule is for traffic to a cluster IP.
fn is_for_cluster_ip(dispatch: DispatchChain, rule: &Rule) -> bool {
    let comment = || PortComment::parse(rule.comment()?).map(|(comment, _)| comment);
    match dispatch {
        DispatchChain::FilterServices => true,
        DispatchChain::NatServices => comment() == Some(PortComment::ClusterIp),
        _ => false,
    }
}

/// Returns the only destination address that a rule matches.
fn address(rule: &Rule) -> Option<IpAddr> {
    let destination = rule.destination.filter(|matched| !matched.negated)?;
    destination.value.host()
}

/// Returns the only destination port that a rule matches.
fn port(rule: &Rule) -> Option<DispatchDestination> {
    rule.matches.iter().find_map(|one| match one {
        Match::Ports {
            protocol,
            destination: Some(range),
            ..
        } if !range.negated && range.value.first == range.value.last => {
            let port = Port::new(range.value.first)?;
            Some(DispatchDestination::Port(*protocol, port))
        }
        _ => None,
    })
}
