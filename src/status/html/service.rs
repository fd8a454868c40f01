//! Page `/services/NAMESPACE/NAME`: a Service with its frontends, endpoints, policies and rules.

use maud::{Markup, html};

use super::document::{PageColumn, table};
use crate::model::{Frontend, ServiceName, TrafficPolicy};
use crate::net::IpFamily;
use crate::render::Disposition;
use crate::status::family_requests::{FamilyService, ServiceRulesText};
use crate::status::quantities::duration;
use crate::status::service_condition::ServiceCondition;
use crate::status::summary::{FrontendSummary, PortSummary, RulesSummary, Shown};

/// Maximum bytes of the rules of a family on a page, with which it stays below 100 KB. Quotation
/// marks take more bytes in HTML.
const MOST_RULES_BYTES: usize = 24 * 1024;

#[derive(Debug)]
pub(in crate::status) struct ServicePage {
    pub name: ServiceName,
    pub condition: ServiceCondition,
    /// Error of a restore with its rules, and the consequence, if it is in quarantine.
    pub quarantine: Vec<(String, String)>,
    /// Families in which the Service has rules.
    pub families: Vec<(IpFamily, FamilyService)>,
}

/// Returns the condition of a Service, which is not shown by a color alone.
pub(super) fn condition_text(condition: ServiceCondition) -> Markup {
    let class = match condition {
        ServiceCondition::Ok => "good",
        ServiceCondition::Pending => "muted",
        ServiceCondition::Unknown
        | ServiceCondition::NoLocalEndpoint
        | ServiceCondition::NoEndpoints => "warn",
        ServiceCondition::NoPath
        | ServiceCondition::Conflict
        | ServiceCondition::OverLimit
        | ServiceCondition::Quarantined => "bad",
    };
    html! { span class=(class) { (condition.as_str()) } }
}

pub(in crate::status) fn service(page: &ServicePage) -> Markup {
    html! {
        h1 { (page.name) }
        p { "Status: " (condition_text(page.condition)) }
        @for (error, consequence) in &page.quarantine {
            p { (consequence) }
            pre class="wrap" { (error) }
        }
        p class="muted" {
            "This command draws the paths of packets: "
            code { "deltaproxy explain " (page.name) " --graph svg" }
        }
        @for (family, service) in &page.families {
            section aria-labelledby=(family) {
                h2 id=(family) { (family) }
                @if service.is_pending {
                    p class="warn" { "Its last changes are not in the rules yet. This is what the rules are made of." }
                }
                (policies(&service.summary))
                @for port in &service.summary.ports.first { (port_section(port, *family)) }
                (left_out(&service.summary.ports, "ports"))
                h3 { "Rules" }
                (rules(&service.rules, *family))
            }
        }
    }
}

fn policies(summary: &RulesSummary) -> Markup {
    html! {
        dl {
            dt { "Internal traffic policy" } dd { (policy(summary.internal_policy)) }
            dt { "External traffic policy" } dd { (policy(summary.external_policy)) }
            dt { "Session affinity" }
            dd {
                @match summary.affinity {
                    Some(timeout) => { "ClientIP, for " (duration(timeout)) },
                    None => "None",
                }
            }
            @if summary.source_ranges.count > 0 {
                dt { "Source ranges of load balancers" }
                dd {
                    @for (position, range) in summary.source_ranges.first.iter().enumerate() {
                        @if position > 0 { ", " }
                        (range)
                    }
                    (left_out(&summary.source_ranges, "source ranges"))
                }
            }
            @if summary.ports_over_limit > 0 {
                dt { "Ports with too many endpoints" } dd { (summary.ports_over_limit) }
            }
        }
    }
}

const fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

fn port_section(port: &PortSummary, family: IpFamily) -> Markup {
    let name = if port.name.is_empty() {
        "without a name"
    } else {
        &port.name
    };
    let title = format!("Port {name} ({})", port.protocol);
    html! {
        h3 { (title) }
        div class="columns" {
            div { (frontends(&port.frontends, &format!("{family}, {title}"))) }
            div { (endpoints(port, &format!("{family}, {title}"))) }
        }
    }
}

/// `of` names the table among those of the page.
fn frontends(frontends: &Shown<FrontendSummary>, of: &str) -> Markup {
    const COLUMNS: &[PageColumn] = &[
        ("Frontend", false),
        ("Kind", false),
        ("Packets to it", false),
    ];
    let rows = html! {
        @for one in &frontends.first {
            tr { th scope="row" { (one.frontend) } td { (one.kind) } td { (treatment(one)) } }
        }
    };
    html! {
        (table(&format!("{of}: frontends"), Some("Frontends"), COLUMNS, &rows))
        (left_out(frontends, "frontends"))
    }
}

fn treatment(one: &FrontendSummary) -> Markup {
    let (class, text) = match (one.disposition, one.frontend) {
        (Some(_), Frontend::HealthCheck(_)) => (None, "answered by deltaproxy"),
        (Some(Disposition::Forward), _) => (None, "sent to endpoints"),
        (Some(Disposition::Drop), _) => (Some("warn"), "dropped: no local endpoint"),
        (Some(Disposition::Reject), _) => (Some("warn"), "rejected: no endpoints"),
        (None, _) => (Some("bad"), "no rules"),
    };
    html! { span class=[class] { (text) } }
}

/// `of` names the table among those of the page.
fn endpoints(port: &PortSummary, of: &str) -> Markup {
    const COLUMNS: &[PageColumn] = &[
        ("Endpoint", false),
        ("Condition", false),
        ("On this node", false),
        ("Policy Cluster", true),
        ("Policy Local", true),
    ];
    let caption = "Endpoints, with their expected shares of new connections";
    let rows = html! {
        @for one in &port.endpoints.first {
            tr {
                th scope="row" { (one.text) }
                td { (one.condition.as_str()) }
                td { @if one.is_local { "yes" } @else { "no" } }
                td class="number" { (share(one.in_cluster, port.in_cluster)) }
                td class="number" { (share(one.in_local, port.in_local)) }
            }
        }
    };
    html! {
        (table(&format!("{of}: endpoints"), Some(caption), COLUMNS, &rows))
        @if port.endpoints.count == 0 { p { "None" } }
        (left_out(&port.endpoints, "endpoints"))
    }
}

/// Returns the share of an endpoint: rules select each one with the same probability.
fn share(has_traffic: bool, endpoints: usize) -> String {
    if !has_traffic {
        return "\u{2013}".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 250,000")]
    let percent = 100.0 / endpoints as f64;
    format!("{percent:.1} %")
}

fn rules(rules: &ServiceRulesText, family: IpFamily) -> Markup {
    html! {
        @match rules {
            ServiceRulesText::NotAsked | ServiceRulesText::TooMany => {
                p { "They are too many for this page: see " a href="/rules" { "all rules" } "." }
            }
            ServiceRulesText::Unknown(reason) => {
                p { "Not known until the next full sync, because of: " (reason) }
            }
            ServiceRulesText::Known(text) if text.is_empty() => p { "None" },
            ServiceRulesText::Known(text) => {
                @let shown = beginning(text);
                p class="muted" {
                    "From memory, as " code { "iptables-save" } " prints them. Those of KUBE-SERVICES and other dispatch \
                     chains may be in chains of a tree."
                }
                pre tabindex="0" role="region" aria-label=(format!("Rules of {family}")) { (shown) }
                @if shown.len() < text.len() {
                    p { "Not all rules are shown: see " a href="/rules" { "all rules" } "." }
                }
            }
        }
    }
}

fn beginning(text: &str) -> &str {
    if text.len() <= MOST_RULES_BYTES {
        return text;
    }
    let end = text.as_bytes().get(..MOST_RULES_BYTES).unwrap_or_default();
    let end = end.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

fn left_out<T>(shown: &Shown<T>, items: &str) -> Markup {
    html! {
        @if shown.left_out() > 0 { p { (shown.left_out()) " more " (items) " are not shown" } }
    }
}
