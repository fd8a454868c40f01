//! A service port's rules in the chains that all Services share: which destination is whose. A
//! frontend that another service port has gets none of these.
//!
//! Apart from the Service's own chains because these are looked through by every new connection,
//! and because most changes leave them as they are.

use std::net::IpAddr;

use super::chain::ChainKind;
use super::counter::Counter;
use super::options::Options;
use super::plan::{Plan, Reception};
use super::sheet::{Dispatch, Sheet};
use crate::model::{ExternalIps, Service};
use crate::net::Protocol;

/// The rules of the nat table: into the Service's chains.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Capture the clusterIP", "Capture
/// externalIPs", "Capture load-balancer ingress", "Capture nodeports" (v1.36)
pub(super) fn write_nat(sheet: &mut Sheet, plan: &Plan<'_>, options: &Options) {
    let (name, service, port) = (plan.name, plan.service, plan.port);
    if plan.internal() == Reception::Served && plan.has_address(service.cluster_ip) {
        sheet.dispatch(Dispatch::NatServices, |rule| {
            rule.comment(format_args!("{name} cluster IP"))
                .protocol(port.protocol)
                .destination(service.cluster_ip)
                .destination_port(port.port)
                .jump_to(plan.policy_chain(service.internal_policy));
        });
    }
    if !plan.selection.has_any {
        return;
    }
    let external = plan.chain(ChainKind::External);
    let entrance = if plan.has_firewall_chain() {
        plan.chain(ChainKind::Firewall)
    } else {
        external
    };
    let addresses = [
        ("external", external_ips(service, options), external),
        ("loadbalancer", &*service.load_balancer_ips, entrance),
    ];
    for (kind, ips, chain) in addresses {
        for ip in ips.iter().filter(|ip| plan.has_address(**ip)) {
            sheet.dispatch(Dispatch::NatServices, |rule| {
                rule.comment(format_args!("{name} {kind} IP"))
                    .protocol(port.protocol)
                    .destination(*ip)
                    .destination_port(port.port)
                    .jump_to(chain);
            });
        }
    }
    let Some(node_port) = plan.node_port() else {
        return;
    };
    if options.counts_localhost_node_ports() {
        // Decides nothing that the next rule would not: it is there for its counter, which tells
        // whether anybody still depends on NodePorts on 127.0.0.1.
        sheet.dispatch(Dispatch::NatNodePorts, |rule| {
            rule.bare_comment(name)
                .protocol(port.protocol)
                .words("-d 127.0.0.0/8")
                .destination_port(node_port)
                .words(Counter::LocalhostNodePorts.words())
                .jump_to(external);
        });
    }
    sheet.dispatch(Dispatch::NatNodePorts, |rule| {
        rule.bare_comment(name)
            .protocol(port.protocol)
            .destination_port(node_port)
            .jump_to(external);
    });
}

/// The rules of the filter table: destinations that nobody answers, load balancer traffic that
/// was not admitted, and health checks.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.36)
pub(super) fn write_filter(sheet: &mut Sheet, plan: &Plan<'_>, options: &Options) {
    let (name, service, port) = (plan.name, plan.service, plan.port);
    if let Some(refusal) = Refusal::of(plan.internal())
        && plan.has_address(service.cluster_ip)
    {
        sheet.dispatch(Dispatch::FilterServices, |rule| {
            rule.comment(format_args!("{name} {}", refusal.reason))
                .protocol(port.protocol)
                .destination(service.cluster_ip)
                .destination_port(port.port)
                .jump(refusal.target);
        });
    }
    if plan.has_firewall_chain() {
        let firewall = plan.chain(ChainKind::Firewall).name();
        let ips = service.load_balancer_ips.iter();
        for ip in ips.filter(|ip| plan.has_address(**ip)) {
            sheet.dispatch(Dispatch::FilterProxyFirewall, |rule| {
                rule.comment(format_args!("{name} traffic not accepted by {firewall}"))
                    .protocol(port.protocol)
                    .destination(*ip)
                    .destination_port(port.port)
                    .jump("DROP");
            });
        }
    }
    if let Some(refusal) = Refusal::of(plan.external()) {
        write_external_refusals(sheet, plan, refusal, options);
    }
    if let Some(health) = plan.health_check() {
        sheet.dispatch(Dispatch::FilterNodePorts, |rule| {
            rule.comment(format_args!("{name} health check node port"))
                .protocol(Protocol::Tcp)
                .destination_port(health)
                .jump("ACCEPT");
        });
    }
}

/// The external IPs that are to be served or refused.
///
/// Upstream: pkg/features/kube_features.go, `AllowServiceExternalIPs` (v1.36)
fn external_ips<'a>(service: &'a Service, options: &Options) -> &'a [IpAddr] {
    match options.external_ips {
        ExternalIps::Served => &service.external_ips,
        ExternalIps::Ignored => &[],
    }
}

fn write_external_refusals(
    sheet: &mut Sheet,
    plan: &Plan<'_>,
    refusal: Refusal,
    options: &Options,
) {
    let (service, port) = (plan.service, plan.port);
    let external = external_ips(service, options).iter();
    let ips = external.chain(&service.load_balancer_ips);
    for ip in ips.filter(|ip| plan.has_address(**ip)) {
        sheet.dispatch(Dispatch::FilterExternalServices, |rule| {
            rule.comment(format_args!("{} {}", plan.name, refusal.reason))
                .protocol(port.protocol)
                .destination(*ip)
                .destination_port(port.port)
                .jump(refusal.target);
        });
    }
    if let Some(node_port) = plan.node_port() {
        sheet.dispatch(Dispatch::FilterExternalServices, |rule| {
            rule.comment(format_args!("{} {}", plan.name, refusal.reason))
                .words("-m addrtype --dst-type LOCAL")
                .protocol(port.protocol)
                .destination_port(node_port)
                .jump(refusal.target);
        });
    }
}

/// How a destination is refused.
#[derive(Clone, Copy)]
struct Refusal {
    reason: &'static str,
    target: &'static str,
}

impl Refusal {
    const fn of(reception: Reception) -> Option<Self> {
        match reception {
            Reception::Served => None,
            Reception::Dropped => Some(Self {
                reason: "has no local endpoints",
                target: "DROP",
            }),
            Reception::Rejected => Some(Self {
                reason: "has no endpoints",
                target: "REJECT",
            }),
        }
    }
}
