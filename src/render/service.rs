//! `KUBE-SVC`, `KUBE-SVL`, `KUBE-EXT` and `KUBE-FW`: the chains of one service port.
//!
//! Apart from [`dispatch`](super::dispatch) because these are written only when the Service
//! changed, and those lie in chains that all Services share.

use super::chain::ChainKind;
use super::dispatch;
use super::endpoint;
use super::endpoint_limit::ports;
use super::options::{Comments, LocalDetector, MasqueradePolicy, Options};
use super::plan::{Plan, Reception};
use super::sheet::Sheet;
use super::tally::Tally;
use crate::model::{Allowance, ServiceName, ServiceState, TrafficPolicy};
use crate::select::EndpointGroups;

/// What all Services of one payload have in common.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Flags, and facts about this node.
    pub options: &'a Options,
    /// The zone that zone hints are compared with.
    pub zone: Option<&'a str>,
}

/// Writes everything that one Service contributes.
pub(super) fn write(
    sheet: &mut Sheet,
    name: &ServiceName,
    state: &ServiceState,
    setting: Setting<'_>,
    comments: Comments,
) {
    sheet.clear();
    for_each_plan(name, state, setting.zone, |plan| {
        sheet.begin_port();
        sheet.tally += Tally::of(plan);
        write_chains(sheet, plan, setting.options, comments);
        dispatch::write_nat(sheet, plan, setting.options);
        dispatch::write_filter(sheet, plan, setting.options);
    });
}

/// Writes only the rules of the filter table, which come before those of nat in a full payload.
pub(super) fn write_filter_only(
    sheet: &mut Sheet,
    name: &ServiceName,
    state: &ServiceState,
    setting: Setting<'_>,
) {
    sheet.clear();
    for_each_plan(name, state, setting.zone, |plan| {
        sheet.begin_port();
        sheet.tally += Tally::of(plan);
        dispatch::write_filter(sheet, plan, setting.options);
    });
}

/// Makes the plan of each port; of none while only slices are known, or if the limits of the
/// namespace leave no rules.
fn for_each_plan(
    name: &ServiceName,
    state: &ServiceState,
    zone: Option<&str>,
    mut write: impl FnMut(&Plan<'_>),
) {
    let Some(service) = &state.service else {
        return;
    };
    if state.allowance == Allowance::NoRules {
        return;
    }
    let groups = EndpointGroups::of(state);
    for (index, port) in (0..).zip(ports(service, &groups)) {
        write(&Plan::new(name, (state, service, index), port, zone));
    }
}

/// How many endpoints a Service has, in any condition, all its ports together.
pub(super) fn count_endpoints(state: &ServiceState) -> usize {
    let Some(service) = &state.service else {
        return 0;
    };
    let groups = EndpointGroups::of(state);
    ports(service, &groups)
        .map(|(_, endpoints)| endpoints.merge().len())
        .sum()
}

/// Chains in an order in which every jump leads to one that is written already: libxtables looks
/// for an extension of that name if it does not know a chain.
fn write_chains(sheet: &mut Sheet, plan: &Plan<'_>, options: &Options, comments: Comments) {
    if !plan.selection.has_any {
        return;
    }
    let endpoints = endpoint::reachable(plan);
    endpoint::write_chains(sheet, plan, &endpoints, comments);
    if endpoints
        .iter()
        .any(|endpoint| endpoint.candidate.in_cluster)
    {
        begin_policy_chain(sheet, plan, TrafficPolicy::Cluster, options);
        endpoint::write_choice(sheet, plan, ChainKind::Cluster, &endpoints, comments);
        sheet.end_chain();
    }
    if plan.selection.has_local {
        begin_policy_chain(sheet, plan, TrafficPolicy::Local, options);
        endpoint::write_choice(sheet, plan, ChainKind::Local, &endpoints, comments);
        sheet.end_chain();
    }
    if plan.has_external_chain() {
        write_external(sheet, plan, options);
    }
    if plan.has_firewall_chain() {
        write_firewall(sheet, plan, options);
    }
}

/// What comes before the endpoints of one policy: in the chain that cluster IP traffic takes, which
/// of it is masqueraded.
///
/// Traffic from outside the pod network to a cluster IP needs masquerading: the endpoint's answer
/// would otherwise not come back through this node.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up internal traffic handling"
/// (v1.36)
fn begin_policy_chain(
    sheet: &mut Sheet,
    plan: &Plan<'_>,
    policy: TrafficPolicy,
    options: &Options,
) {
    sheet.begin_chain(plan.policy_chain(policy));
    let is_internal = policy == plan.service.internal_policy;
    let is_all = options.masquerade.policy == MasqueradePolicy::All;
    let can_detect = options.local_traffic != LocalDetector::Absent;
    if is_internal && plan.internal() == Reception::Served && (is_all || can_detect) {
        let rule = sheet
            .rule()
            .comment(format_args!("{} cluster IP", plan.name))
            .protocol(plan.port.protocol)
            .destination(plan.service.cluster_ip)
            .destination_port(plan.port.port);
        let rule = if is_all {
            rule
        } else {
            rule.if_not_local(&options.local_traffic)
        };
        rule.jump("KUBE-MARK-MASQ");
    }
}

/// Where traffic to external IPs, load balancer addresses and NodePorts enters.
///
/// Under policy Local, clients of the cluster itself, pods and nodes, are not meant: they get any
/// endpoint, as if they had used the cluster IP.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up external traffic handling"
/// (v1.36)
fn write_external(sheet: &mut Sheet, plan: &Plan<'_>, options: &Options) {
    let name = plan.name;
    let cluster = plan.chain(ChainKind::Cluster);
    sheet.begin_chain(plan.chain(ChainKind::External));
    match plan.service.external_policy {
        TrafficPolicy::Cluster => sheet
            .rule()
            .comment(format_args!(
                "masquerade traffic for {name} external destinations"
            ))
            .jump("KUBE-MARK-MASQ"),
        TrafficPolicy::Local => {
            if options.local_traffic != LocalDetector::Absent {
                sheet
                    .rule()
                    .comment(format_args!("pod traffic for {name} external destinations"))
                    .if_local(&options.local_traffic)
                    .jump_to(cluster);
            }
            sheet
                .rule()
                .comment(format_args!(
                    "masquerade LOCAL traffic for {name} external destinations"
                ))
                .words("-m addrtype --src-type LOCAL")
                .jump("KUBE-MARK-MASQ");
            sheet
                .rule()
                .comment(format_args!(
                    "route LOCAL traffic for {name} external destinations"
                ))
                .words("-m addrtype --src-type LOCAL")
                .jump_to(cluster);
        }
    }
    if plan.external() == Reception::Served {
        sheet
            .rule()
            .jump_to(plan.policy_chain(plan.service.external_policy));
    }
    sheet.end_chain();
}

/// Which clients a load balancer admits.
///
/// A node that is admitted may also reach the Service through the load balancer's address, with
/// that very address as its source. The last rule does nothing: it tells a reader what becomes of
/// the rest.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up firewall for load balancer"
/// (v1.36)
fn write_firewall(sheet: &mut Sheet, plan: &Plan<'_>, options: &Options) {
    let name = plan.name;
    let external = plan.chain(ChainKind::External);
    sheet.begin_chain(plan.chain(ChainKind::Firewall));
    for range in &plan.service.source_ranges {
        sheet
            .rule()
            .comment(format_args!("{name} loadbalancer IP"))
            .source_net(*range)
            .jump_to(external);
    }
    if plan
        .service
        .source_ranges
        .iter()
        .any(|range| range.contains(&options.node_ip))
    {
        for ip in &plan.service.load_balancer_ips {
            sheet
                .rule()
                .comment(format_args!("{name} loadbalancer IP"))
                .source(*ip)
                .jump_to(external);
        }
    }
    sheet
        .rule()
        .comment(format_args!(
            "other traffic to {name} will be dropped by KUBE-PROXY-FIREWALL"
        ))
        .end();
    sheet.end_chain();
}
