//! Renders a Service: writes, for each service port, the chains `KUBE-SEP`, `KUBE-SVC`, `KUBE-SVL`,
//! `KUBE-EXT` and `KUBE-FW`, and its rules in the dispatch chains, one or more for each frontend
//! that it owns.
//!
//! There are as many `KUBE-SEP` chains as endpoints: nearly all of a ruleset is written here. Every
//! new connection traverses the dispatch chains, and most changes of Services leave them unchanged.
//! If several service ports claim a frontend, the tracker selects its owner.

use std::net::IpAddr;

use super::plan::{Disposition, Plan, for_each_plan};
use super::service_rules::{RuleWriter, ServiceRules};
use crate::model::{ExternalIps, Service, ServiceName, ServiceState, TrafficPolicy};
use crate::net::Protocol;
use crate::render::options::{Comments, Counter, LocalDetector, Options};
use crate::ruleset::{
    ChainKind, DispatchChain, DispatchDestination, KUBE_MARK_MASQ, PortComment, ServiceChain,
};
use crate::select::Candidate;

/// Replaces `rules` with those of a Service.
pub(crate) fn render(
    rules: &mut ServiceRules,
    name: &ServiceName,
    state: &ServiceState,
    options: &Options,
    comments: Comments,
) {
    rules.begin(comments);
    for_each_plan(name, state, &options.topology, |plan| {
        rules.begin_port(plan.totals(options));
        write_chains(rules, plan, options, comments);
        write_nat_rules(rules, plan, options);
        write_filter_rules(rules, plan, options);
    });
}

/// Replaces `rules` with those that a Service has in the filter table, which comes before nat in a
/// full payload.
///
/// [`render`] makes the plans of the Service once more. They are not kept in between, because
/// those of all Services would take more memory than the payload; planning twice costs a ninth of
/// the instructions of rendering (ten endpoints for each Service).
pub(crate) fn render_filter(
    rules: &mut ServiceRules,
    name: &ServiceName,
    state: &ServiceState,
    options: &Options,
) {
    rules.clear();
    for_each_plan(name, state, &options.topology, |plan| {
        rules.begin_port(plan.totals(options));
        write_filter_rules(rules, plan, options);
    });
}

/// Writes the chains of a service port, each after those that it jumps to: if libxtables does not
/// know the target of `-j` as a chain, it searches files for an extension of that name.
fn write_chains(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options, comments: Comments) {
    if !plan.selection.has_any {
        return;
    }
    let endpoints = endpoints_with_chains(plan);
    write_endpoints(rules, plan, &endpoints, comments);
    // Without an endpoint under policy Cluster, the internal policy is Local and the port is not
    // accessible from outside: no rule jumps to `KUBE-SVC`.
    if endpoints.iter().any(|(candidate, _)| candidate.in_cluster) {
        begin_policy_chain(rules, plan, TrafficPolicy::Cluster, options);
        write_endpoint_jumps(rules, plan, TrafficPolicy::Cluster, &endpoints, comments);
        rules.end_chain();
    }
    if plan.selection.has_local {
        begin_policy_chain(rules, plan, TrafficPolicy::Local, options);
        write_endpoint_jumps(rules, plan, TrafficPolicy::Local, &endpoints, comments);
        rules.end_chain();
    }
    if plan.has_external_chain() {
        write_external(rules, plan, options);
    }
    if plan.has_source_range_chain() {
        write_source_ranges(rules, plan, options);
    }
}

/// Returns the endpoints that this node uses, each with its `KUBE-SEP` chain, whose name contains a
/// hash that is too expensive to compute twice.
fn endpoints_with_chains<'a>(plan: &Plan<'a>) -> Vec<(Candidate<'a>, ServiceChain)> {
    let candidates = plan.selection.candidates.iter();
    candidates
        .filter(|candidate| candidate.is_reachable())
        .map(|candidate| (*candidate, plan.endpoint_chain(candidate.text.as_bytes())))
        .collect()
}

/// Writes a `KUBE-SEP` chain for each endpoint, with the DNAT rule.
///
/// The first rule of the chain masquerades packets that an endpoint sends to its Service and that
/// come back to it: with its own address as their source, it would answer itself directly.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Generate the per-endpoint chains"
/// (v1.37)
fn write_endpoints(
    rules: &mut ServiceRules,
    plan: &Plan<'_>,
    endpoints: &[(Candidate<'_>, ServiceChain)],
    comments: Comments,
) {
    for (candidate, chain) in endpoints {
        rules.begin_chain(*chain);
        let mut hairpin = rules.rule();
        if comments == Comments::Everywhere {
            hairpin = hairpin.bare_comment(plan.name);
        }
        hairpin.source(candidate.endpoint.ip).jump(KUBE_MARK_MASQ);
        let mut dnat = rules.rule();
        if comments == Comments::Everywhere {
            dnat = dnat.bare_comment(plan.name);
        }
        if plan.service.affinity.is_some() {
            dnat = dnat.words("-m recent --name").chain(*chain).words("--set");
        }
        dnat.protocol(plan.port.protocol)
            .dnat(candidate.text.as_bytes());
        rules.end_chain();
    }
}

/// Writes the jumps of a policy chain to its endpoints. With session affinity there are two for
/// each endpoint: the first ones match clients that the endpoint has served within the timeout.
/// The others select one of the endpoints with equal probability.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `writeServiceToEndpointRules` (v1.37)
fn write_endpoint_jumps(
    rules: &mut ServiceRules,
    plan: &Plan<'_>,
    policy: TrafficPolicy,
    endpoints: &[(Candidate<'_>, ServiceChain)],
    comments: Comments,
) {
    let used = endpoints.iter().filter(|(candidate, _)| match policy {
        TrafficPolicy::Local => candidate.in_local,
        TrafficPolicy::Cluster => candidate.in_cluster,
    });
    if let Some(timeout) = plan.service.affinity {
        for (candidate, chain) in used.clone() {
            begin_endpoint_jump(rules, plan, candidate, comments)
                .words("-m recent --name")
                .chain(*chain)
                .words("--rcheck --seconds")
                .number(timeout.as_secs())
                .words("--reap")
                .jump_to_service_chain(*chain);
        }
    }
    let count = used.clone().count();
    for (position, (candidate, chain)) in used.enumerate() {
        let rule = begin_endpoint_jump(rules, plan, candidate, comments);
        let rule = match even_share(count - position) {
            Some(share) => rule.probability(share),
            None => rule,
        };
        rule.jump_to_service_chain(*chain);
    }
}

/// Begins a jump to the chain of an endpoint.
fn begin_endpoint_jump<'s>(
    rules: &'s mut ServiceRules,
    plan: &Plan<'_>,
    candidate: &Candidate<'_>,
    comments: Comments,
) -> RuleWriter<'s> {
    let rule = rules.rule();
    match comments {
        Comments::Everywhere => rule.comment(format_args!("{} -> {}", plan.name, candidate.text)),
        Comments::NotOnEndpoints => rule,
    }
}

/// Begins the chain of a traffic policy. If it is the one for cluster IPs, its first rule marks
/// packets to the cluster IP for masquerading.
///
/// Packets that are not local Pod traffic need it: the endpoint's reply would otherwise not come
/// back through this node.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up internal traffic handling"
/// (v1.37)
fn begin_policy_chain(
    rules: &mut ServiceRules,
    plan: &Plan<'_>,
    policy: TrafficPolicy,
    options: &Options,
) {
    rules.begin_chain(plan.policy_chain(policy));
    let is_internal = policy == plan.service.internal_policy;
    let is_all = options.masquerade.is_for_all;
    let can_detect = options.local_traffic != LocalDetector::Absent;
    if is_internal && plan.internal_disposition() == Disposition::Forward && (is_all || can_detect)
    {
        let rule = rules
            .rule()
            .comment(PortComment::ClusterIp.for_port(plan.name))
            .protocol(plan.port.protocol)
            .destination(plan.service.cluster_ip)
            .destination_port(plan.port.port);
        let rule = if is_all {
            rule
        } else {
            rule.if_not_local(&options.local_traffic)
        };
        rule.jump(KUBE_MARK_MASQ);
    }
}

/// Writes `KUBE-EXT`, the chain for traffic to external IPs, load balancer addresses and
/// NodePorts.
///
/// Policy Local does not apply to local Pod traffic, as [`LocalDetector`] defines it, nor to
/// packets from this node itself: these get any endpoint, as with policy Cluster.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up external traffic handling"
/// (v1.37)
fn write_external(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
    let name = plan.name;
    let cluster = plan.chain(ChainKind::Cluster);
    rules.begin_chain(plan.chain(ChainKind::External));
    match plan.service.external_policy {
        TrafficPolicy::Cluster => rules
            .rule()
            .comment(PortComment::MasqueradeExternal.for_port(name))
            .jump(KUBE_MARK_MASQ),
        TrafficPolicy::Local => {
            if options.local_traffic != LocalDetector::Absent {
                rules
                    .rule()
                    .comment(PortComment::PodTraffic.for_port(name))
                    .if_local(&options.local_traffic)
                    .jump_to_service_chain(cluster);
            }
            rules
                .rule()
                .comment(PortComment::MasqueradeNode.for_port(name))
                .words("-m addrtype --src-type LOCAL")
                .jump(KUBE_MARK_MASQ);
            rules
                .rule()
                .comment(PortComment::RouteNode.for_port(name))
                .words("-m addrtype --src-type LOCAL")
                .jump_to_service_chain(cluster);
        }
    }
    if plan.external_disposition() == Disposition::Forward {
        rules
            .rule()
            .jump_to_service_chain(plan.policy_chain(plan.service.external_policy));
    }
    rules.end_chain();
}

/// Writes `KUBE-FW`, the chain with the source ranges of a load balancer.
///
/// If the source ranges contain this node's address, packets from the load balancer's address are
/// admitted as well: where that address is assigned to the node, packets that the node sends to it
/// have it as their source. The last rule has no target: its comment says where other traffic is
/// dropped.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up firewall chain" (v1.37)
fn write_source_ranges(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
    let name = plan.name;
    let external = plan.chain(ChainKind::External);
    rules.begin_chain(plan.chain(ChainKind::SourceRanges));
    for range in &plan.service.source_ranges {
        rules
            .rule()
            .comment(PortComment::LoadBalancerIp.for_port(name))
            .source_net(*range)
            .jump_to_service_chain(external);
    }
    if plan
        .service
        .source_ranges
        .iter()
        .any(|range| range.contains(&options.node_ip))
    {
        for ip in &plan.service.load_balancer_ips {
            rules
                .rule()
                .comment(PortComment::LoadBalancerIp.for_port(name))
                .source(*ip)
                .jump_to_service_chain(external);
        }
    }
    rules
        .rule()
        .comment(PortComment::DroppedElsewhere.for_port(name))
        .end();
    rules.end_chain();
}

/// Returns the share that an endpoint gets of the packets that the rules before its own did not
/// match, given the number of endpoints from this one to the last. The last one takes the rest,
/// without a match.
///
/// Rules are evaluated in order. For all of `n` endpoints to get the same number of packets, the
/// share of endpoint `i`, counted from 0, must be 1/(n - i).
///
/// Upstream: pkg/proxy/iptables/proxier.go, `computeProbability` (v1.37)
fn even_share(remaining: usize) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "no Service has 2^53 endpoints")]
    let share = 1.0 / remaining as f64;
    (remaining > 1).then_some(share)
}

/// Writes the rules of the nat table: jumps to the Service's chains.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Capture the clusterIP", "Capture
/// externalIPs", "Capture load-balancer ingress", "Capture nodeports" (v1.37)
fn write_nat_rules(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
    let (name, service, port) = (plan.name, plan.service, plan.port);
    if plan.internal_disposition() == Disposition::Forward && plan.owns_address(service.cluster_ip)
    {
        let to = DispatchDestination::ClusterIp(service.cluster_ip);
        rules.dispatch_rule(DispatchChain::NatServices, to, |rule| {
            rule.comment(PortComment::ClusterIp.for_port(name))
                .protocol(port.protocol)
                .destination(service.cluster_ip)
                .destination_port(port.port)
                .jump_to_service_chain(plan.policy_chain(service.internal_policy));
        });
    }
    if !plan.selection.has_any {
        return;
    }
    let external = plan.chain(ChainKind::External);
    let load_balancer = if plan.has_source_range_chain() {
        plan.chain(ChainKind::SourceRanges)
    } else {
        external
    };
    let external_ips = external_ips(service, options);
    let load_balancer_ips = &*service.load_balancer_ips;
    let addresses = [
        (PortComment::ExternalIp, external_ips, external),
        (
            PortComment::LoadBalancerIp,
            load_balancer_ips,
            load_balancer,
        ),
    ];
    for (comment, ips, chain) in addresses {
        for ip in ips.iter().filter(|ip| plan.owns_address(**ip)) {
            let to = DispatchDestination::ExternalIp(*ip);
            rules.dispatch_rule(DispatchChain::NatServices, to, |rule| {
                rule.comment(comment.for_port(name))
                    .protocol(port.protocol)
                    .destination(*ip)
                    .destination_port(port.port)
                    .jump_to_service_chain(chain);
            });
        }
    }
    write_node_port(rules, plan, options);
}

/// Writes the jump from a NodePort to the chain for external traffic, with the rule that counts
/// packets to it on localhost.
fn write_node_port(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
    let (name, port) = (plan.name, plan.port);
    let external = plan.chain(ChainKind::External);
    let Some(node_port) = plan.node_port() else {
        return;
    };
    let to = DispatchDestination::Port(port.protocol, node_port);
    if options.counts_localhost_node_ports() {
        // Has the same target as the next rule. Its nfacct counter shows whether clients still
        // depend on NodePorts on 127.0.0.1.
        rules.dispatch_rule(DispatchChain::NatNodePorts, to, |rule| {
            rule.bare_comment(name)
                .protocol(port.protocol)
                .words("-d 127.0.0.0/8")
                .destination_port(node_port)
                .words(Counter::LocalhostNodePorts.match_text())
                .jump_to_service_chain(external);
        });
    }
    rules.dispatch_rule(DispatchChain::NatNodePorts, to, |rule| {
        rule.bare_comment(name)
            .protocol(port.protocol)
            .destination_port(node_port)
            .jump_to_service_chain(external);
    });
}

/// Writes the rules of the filter table: frontends without usable endpoints, load balancer traffic
/// from outside of the source ranges, and health checks.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.37)
fn write_filter_rules(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
    let (name, service, port) = (plan.name, plan.service, plan.port);
    if let Some((reason, target)) = blocking_rule(plan.internal_disposition())
        && plan.owns_address(service.cluster_ip)
    {
        let to = DispatchDestination::ClusterIp(service.cluster_ip);
        rules.dispatch_rule(DispatchChain::FilterServices, to, |rule| {
            rule.comment(reason.for_port(name))
                .protocol(port.protocol)
                .destination(service.cluster_ip)
                .destination_port(port.port)
                .jump(target);
        });
    }
    if plan.has_source_range_chain() {
        let comment = PortComment::NotAccepted(plan.chain(ChainKind::SourceRanges));
        let ips = service.load_balancer_ips.iter();
        for ip in ips.filter(|ip| plan.owns_address(**ip)) {
            let to = DispatchDestination::ExternalIp(*ip);
            rules.dispatch_rule(DispatchChain::FilterProxyFirewall, to, |rule| {
                rule.comment(comment.for_port(name))
                    .protocol(port.protocol)
                    .destination(*ip)
                    .destination_port(port.port)
                    .jump("DROP");
            });
        }
    }
    if let Some(blocking) = blocking_rule(plan.external_disposition()) {
        write_external_blocking_rules(rules, plan, blocking, options);
    }
    if let Some(health) = plan.health_check() {
        let to = DispatchDestination::Port(Protocol::Tcp, health);
        rules.dispatch_rule(DispatchChain::FilterNodePorts, to, |rule| {
            rule.comment(PortComment::HealthCheck.for_port(name))
                .protocol(Protocol::Tcp)
                .destination_port(health)
                .jump("ACCEPT");
        });
    }
}

/// Returns the external IPs that get rules.
///
/// Upstream: pkg/features/kube_features.go, `AllowServiceExternalIPs` (v1.37)
fn external_ips<'a>(service: &'a Service, options: &Options) -> &'a [IpAddr] {
    match options.external_ips {
        ExternalIps::Served => &service.external_ips,
        ExternalIps::Ignored => &[],
    }
}

fn write_external_blocking_rules(
    rules: &mut ServiceRules,
    plan: &Plan<'_>,
    (reason, target): (PortComment, &'static str),
    options: &Options,
) {
    let (service, port) = (plan.service, plan.port);
    let external = external_ips(service, options).iter();
    let ips = external.chain(&service.load_balancer_ips);
    for ip in ips.filter(|ip| plan.owns_address(**ip)) {
        let to = DispatchDestination::ExternalIp(*ip);
        rules.dispatch_rule(DispatchChain::FilterExternalServices, to, |rule| {
            rule.comment(reason.for_port(plan.name))
                .protocol(port.protocol)
                .destination(*ip)
                .destination_port(port.port)
                .jump(target);
        });
    }
    if let Some(node_port) = plan.node_port() {
        let to = DispatchDestination::Port(port.protocol, node_port);
        rules.dispatch_rule(DispatchChain::FilterExternalServices, to, |rule| {
            rule.comment(reason.for_port(plan.name))
                .words("-m addrtype --dst-type LOCAL")
                .protocol(port.protocol)
                .destination_port(node_port)
                .jump(target);
        });
    }
}

/// Returns comment and target of the rule for a frontend without usable endpoints.
const fn blocking_rule(disposition: Disposition) -> Option<(PortComment, &'static str)> {
    match disposition {
        Disposition::Forward => None,
        Disposition::Drop => Some((PortComment::NoLocalEndpoints, "DROP")),
        Disposition::Reject => Some((PortComment::NoEndpoints, "REJECT")),
    }
}
