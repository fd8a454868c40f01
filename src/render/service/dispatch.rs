//! Writes the rules of a service port in dispatch chains, one or more for each frontend that the
//! port owns. If several service ports claim a frontend, the tracker selects its owner.
//!
//! Every new connection traverses these chains, and most changes of Services leave them unchanged.

use std::net::IpAddr;

use super::plan::{Disposition, Plan};
use super::service_rules::ServiceRules;
use crate::model::{ExternalIps, Service};
use crate::net::Protocol;
use crate::render::options::{Counter, Options};
use crate::ruleset::{ChainKind, DispatchChain, DispatchDestination, PortComment};

/// Writes the rules of the nat table: jumps to the Service's chains.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Capture the clusterIP", "Capture
/// externalIPs", "Capture load-balancer ingress", "Capture nodeports" (v1.37)
pub(super) fn write_nat(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
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
pub(super) fn write_filter(rules: &mut ServiceRules, plan: &Plan<'_>, options: &Options) {
    let (name, service, port) = (plan.name, plan.service, plan.port);
    if let Some(blocking) = BlockingRule::of(plan.internal_disposition())
        && plan.owns_address(service.cluster_ip)
    {
        let to = DispatchDestination::ClusterIp(service.cluster_ip);
        rules.dispatch_rule(DispatchChain::FilterServices, to, |rule| {
            rule.comment(blocking.reason.for_port(name))
                .protocol(port.protocol)
                .destination(service.cluster_ip)
                .destination_port(port.port)
                .jump(blocking.target);
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
    if let Some(blocking) = BlockingRule::of(plan.external_disposition()) {
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
    blocking: BlockingRule,
    options: &Options,
) {
    let (service, port) = (plan.service, plan.port);
    let external = external_ips(service, options).iter();
    let ips = external.chain(&service.load_balancer_ips);
    for ip in ips.filter(|ip| plan.owns_address(**ip)) {
        let to = DispatchDestination::ExternalIp(*ip);
        rules.dispatch_rule(DispatchChain::FilterExternalServices, to, |rule| {
            rule.comment(blocking.reason.for_port(plan.name))
                .protocol(port.protocol)
                .destination(*ip)
                .destination_port(port.port)
                .jump(blocking.target);
        });
    }
    if let Some(node_port) = plan.node_port() {
        let to = DispatchDestination::Port(port.protocol, node_port);
        rules.dispatch_rule(DispatchChain::FilterExternalServices, to, |rule| {
            rule.comment(blocking.reason.for_port(plan.name))
                .words("-m addrtype --dst-type LOCAL")
                .protocol(port.protocol)
                .destination_port(node_port)
                .jump(blocking.target);
        });
    }
}

/// Comment and target of the rule for a frontend without usable endpoints.
#[derive(Clone, Copy)]
struct BlockingRule {
    reason: PortComment,
    target: &'static str,
}

impl BlockingRule {
    const fn of(disposition: Disposition) -> Option<Self> {
        match disposition {
            Disposition::Forward => None,
            Disposition::Drop => Some(Self {
                reason: PortComment::NoLocalEndpoints,
                target: "DROP",
            }),
            Disposition::Reject => Some(Self {
                reason: PortComment::NoEndpoints,
                target: "REJECT",
            }),
        }
    }
}
