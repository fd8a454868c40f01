//! Writes the chains of one service port: `KUBE-SEP`, `KUBE-SVC`, `KUBE-SVL`, `KUBE-EXT` and
//! `KUBE-FW`.
//!
//! There are as many `KUBE-SEP` chains as endpoints: nearly all of a ruleset is written here.

use super::plan::{Disposition, Plan};
use super::service_rules::ServiceRules;
use super::writer::{EvenShare, RuleWriter};
use crate::model::TrafficPolicy;
use crate::render::options::{Comments, LocalDetector, MasqueradePolicy, Options};
use crate::ruleset::{ChainKind, KUBE_MARK_MASQ, PortComment, ServiceChain};
use crate::select::Candidate;

/// Endpoint that needs a chain, with the chain's name, which is too expensive to compute twice.
struct Reachable<'a> {
    candidate: Candidate<'a>,
    chain: ServiceChain,
}

/// Writes chains in an order in which every jump leads to one that is written already: libxtables
/// searches for an extension of that name if it does not know a chain.
pub(super) fn write(
    rules: &mut ServiceRules,
    plan: &Plan<'_>,
    options: &Options,
    comments: Comments,
) {
    if !plan.selection.has_any {
        return;
    }
    let endpoints = reachable(plan);
    write_endpoints(rules, plan, &endpoints, comments);
    if endpoints
        .iter()
        .any(|endpoint| endpoint.candidate.in_cluster)
    {
        begin_policy_chain(rules, plan, TrafficPolicy::Cluster, options);
        write_choice(rules, plan, TrafficPolicy::Cluster, &endpoints, comments);
        rules.end_chain();
    }
    if plan.selection.has_local {
        begin_policy_chain(rules, plan, TrafficPolicy::Local, options);
        write_choice(rules, plan, TrafficPolicy::Local, &endpoints, comments);
        rules.end_chain();
    }
    if plan.has_external_chain() {
        write_external(rules, plan, options);
    }
    if plan.has_firewall_chain() {
        write_firewall(rules, plan, options);
    }
}

fn reachable<'a>(plan: &Plan<'a>) -> Vec<Reachable<'a>> {
    let candidates = plan
        .selection
        .candidates
        .iter()
        .filter(|c| c.is_reachable());
    candidates
        .map(|candidate| Reachable {
            candidate: *candidate,
            chain: plan.endpoint_chain(candidate.text.as_bytes()),
        })
        .collect()
}

/// Writes a `KUBE-SEP` chain for each endpoint, with the DNAT rule.
///
/// An endpoint that reaches itself through its Service must see another source address than its
/// own, or it would answer itself directly: hence the masquerade rule for its own address.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Generate the per-endpoint chains"
/// (v1.36)
fn write_endpoints(
    rules: &mut ServiceRules,
    plan: &Plan<'_>,
    endpoints: &[Reachable<'_>],
    comments: Comments,
) {
    for Reachable { candidate, chain } in endpoints {
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

/// Writes the rules of a policy chain that select an endpoint: the one that served this client
/// last, or else any with equal probability.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `writeServiceToEndpointRules` (v1.36)
fn write_choice(
    rules: &mut ServiceRules,
    plan: &Plan<'_>,
    policy: TrafficPolicy,
    endpoints: &[Reachable<'_>],
    comments: Comments,
) {
    let is_chosen = |endpoint: &&Reachable<'_>| match policy {
        TrafficPolicy::Local => endpoint.candidate.in_local,
        TrafficPolicy::Cluster => endpoint.candidate.in_cluster,
    };
    let count = endpoints.iter().filter(is_chosen).count();
    if let Some(timeout) = plan.service.affinity {
        for endpoint in endpoints.iter().filter(is_chosen) {
            begin_choice(rules, plan, endpoint, comments)
                .words("-m recent --name")
                .chain(endpoint.chain)
                .words("--rcheck --seconds")
                .number(timeout.as_secs())
                .words("--reap")
                .jump_to(endpoint.chain);
        }
    }
    for (position, endpoint) in endpoints.iter().filter(is_chosen).enumerate() {
        let rule = begin_choice(rules, plan, endpoint, comments);
        match EvenShare::at(position, count) {
            Some(share) => rule.probability(share).jump_to(endpoint.chain),
            None => rule.jump_to(endpoint.chain),
        }
    }
}

/// Begins a rule that leads to an endpoint.
fn begin_choice<'s>(
    rules: &'s mut ServiceRules,
    plan: &Plan<'_>,
    endpoint: &Reachable<'_>,
    comments: Comments,
) -> RuleWriter<'s> {
    let rule = rules.rule();
    match comments {
        Comments::Everywhere => {
            rule.comment(format_args!("{} -> {}", plan.name, endpoint.candidate.text))
        }
        Comments::NotOnEndpoints => rule,
    }
}

/// Begins the chain of a traffic policy. The one that cluster IP traffic traverses marks it for
/// masquerading, if needed.
///
/// Traffic from outside of the Pod network to a cluster IP needs masquerading: the endpoint's
/// reply would otherwise not come back through this node.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up internal traffic handling"
/// (v1.36)
fn begin_policy_chain(
    rules: &mut ServiceRules,
    plan: &Plan<'_>,
    policy: TrafficPolicy,
    options: &Options,
) {
    rules.begin_chain(plan.policy_chain(policy));
    let is_internal = policy == plan.service.internal_policy;
    let is_all = options.masquerade.policy == MasqueradePolicy::All;
    let can_detect = options.local_traffic != LocalDetector::Absent;
    if is_internal && plan.internal() == Disposition::Forward && (is_all || can_detect) {
        let rule = rules
            .rule()
            .comment(PortComment::ClusterIp.about(plan.name))
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
/// Policy Local does not apply to clients of the cluster itself, Pods and nodes: they get any
/// endpoint, as if they had used the cluster IP.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up external traffic handling"
/// (v1.36)
fn write_external(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
    let name = plan.name;
    let cluster = plan.chain(ChainKind::Cluster);
    rules.begin_chain(plan.chain(ChainKind::External));
    match plan.service.external_policy {
        TrafficPolicy::Cluster => rules
            .rule()
            .comment(PortComment::MasqueradeExternal.about(name))
            .jump(KUBE_MARK_MASQ),
        TrafficPolicy::Local => {
            if options.local_traffic != LocalDetector::Absent {
                rules
                    .rule()
                    .comment(PortComment::PodTraffic.about(name))
                    .if_local(&options.local_traffic)
                    .jump_to(cluster);
            }
            rules
                .rule()
                .comment(PortComment::MasqueradeNode.about(name))
                .words("-m addrtype --src-type LOCAL")
                .jump(KUBE_MARK_MASQ);
            rules
                .rule()
                .comment(PortComment::RouteNode.about(name))
                .words("-m addrtype --src-type LOCAL")
                .jump_to(cluster);
        }
    }
    if plan.external() == Disposition::Forward {
        rules
            .rule()
            .jump_to(plan.policy_chain(plan.service.external_policy));
    }
    rules.end_chain();
}

/// Writes `KUBE-FW`, the chain with the source ranges of a load balancer.
///
/// A node that is admitted may also reach the Service through the load balancer's address, with
/// that very address as its source. The last rule has no target: its comment explains where other
/// traffic is dropped.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Set up firewall for load balancer"
/// (v1.36)
fn write_firewall(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
    let name = plan.name;
    let external = plan.chain(ChainKind::External);
    rules.begin_chain(plan.chain(ChainKind::Firewall));
    for range in &plan.service.source_ranges {
        rules
            .rule()
            .comment(PortComment::LoadBalancerIp.about(name))
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
            rules
                .rule()
                .comment(PortComment::LoadBalancerIp.about(name))
                .source(*ip)
                .jump_to(external);
        }
    }
    rules
        .rule()
        .comment(PortComment::DroppedElsewhere.about(name))
        .end();
    rules.end_chain();
}
