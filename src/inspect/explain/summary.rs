//! Renders clients, results and reasons as phrases, the same ones in text, graphs and JSON.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::Explanation;
use super::client::{Client, ClientKind};
use super::node::AddressOrigin;
use super::path::{Branch, PacketPath, PathResult, SeenSource, SharedRules};
use super::reason_text;
use crate::inspect::catalog::{FrontendKind, PortName};
use crate::rules::Share;

/// Renders `10.96.0.10:53/udp, cluster IP of kube-system/dns:dns`.
pub(super) fn title(explanation: &Explanation<'_>) -> String {
    let mut text = explanation.to.to_string();
    if explanation.destination_origin == AddressOrigin::Invented {
        text.push_str(" (assumed address of the node)");
    }
    for frontend in &explanation.to.frontends {
        // Writing to a String cannot fail.
        let _ = write!(text, ", {} of {}", frontend.kind, port_name(&frontend.name));
    }
    let endpoint_of = explanation.to.endpoint_of.iter();
    let endpoint_of: Vec<_> = endpoint_of.map(port_name).collect();
    match endpoint_of.as_slice() {
        [] if explanation.to.frontends.is_empty() && is_blocked_for_a_service(explanation) => {
            text.push_str(", a Service whose name is not in the rules");
        }
        [] if explanation.to.frontends.is_empty() && explanation.missing_tables.is_empty() => {
            text.push_str(", not a Service address");
            if explanation.unreadable_rules > 0 {
                text.push_str(" in the rules that can be read");
            }
        }
        [] if explanation.to.frontends.is_empty() => {
            text.push_str(", not a Service address in this dump");
        }
        [] => {}
        ports => {
            let _ = write!(text, ", endpoint of {}", ports.join(", "));
        }
    }
    text
}

/// Renders the name of a service port, or its chains if the rules do not show its name.
fn port_name(port: &PortName) -> String {
    if port.is_unnamed() {
        format!(
            "a Service whose name is not in the rules (chains `KUBE-*-{}`)",
            port.service()
        )
    } else {
        port.name.to_string()
    }
}

/// Reports whether packets are dropped or rejected as those to a Service without endpoints.
fn is_blocked_for_a_service(explanation: &Explanation<'_>) -> bool {
    let mut branches = explanation.paths.iter().flat_map(|path| &path.branches);
    branches.any(|branch| match &branch.result {
        PathResult::Dropped(why) | PathResult::Rejected(why) => why.is_lack_of_endpoints(),
        _ => false,
    })
}

/// Renders addresses in a list.
pub(super) fn listed<'i>(ips: impl IntoIterator<Item = &'i IpAddr>) -> String {
    let ips: Vec<_> = ips.into_iter().map(ToString::to_string).collect();
    match ips.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => ips.concat(),
    }
}

/// Maximum addresses that a doubt names.
const MAX_DOUBTS: usize = 3;

/// Renders the addresses that would change the result if they were the node's.
pub(super) fn node_doubt(explanation: &Explanation<'_>) -> Option<String> {
    let ips = &explanation.possible_node_ips;
    let shown: Vec<_> = ips.iter().take(MAX_DOUBTS).map(IpAddr::to_string).collect();
    let more = match ips.len().checked_sub(MAX_DOUBTS) {
        None | Some(0) => String::new(),
        Some(more) => format!(" or {more} more"),
    };
    (!shown.is_empty()).then(|| {
        format!(
            "the result differs if this node has the address {}{more}; set --node-ip",
            shown.join(" or ")
        )
    })
}

/// Renders clients of different kinds as one phrase, each with its representative address.
pub(super) fn clients(clients: &[Client]) -> String {
    let each = clients.iter().map(|client| {
        let ip = client.ip;
        match client.kind {
            ClientKind::Pod => format!("a pod (such as {ip})"),
            ClientKind::Node if client.origin == AddressOrigin::Invented => {
                format!("the node (assumed {ip})")
            }
            ClientKind::Node => format!("the node ({ip})"),
            ClientKind::Outside => format!("outside (such as {ip})"),
            ClientKind::AllowedSource => format!("an allowed source (such as {ip})"),
            ClientKind::Given => ip.to_string(),
        }
    });
    let each: Vec<_> = each.collect();
    match each.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => each.concat(),
    }
}

/// Renders a hint at the client whose rules are shown, if those of other clients of the path
/// differ by more than `most`.
pub(super) fn rules_of(path: &PacketPath<'_>, most: SharedRules) -> Option<String> {
    let first = path.clients.first();
    let first = first.filter(|_| path.shared_rules > most)?;
    let client = match first.kind {
        ClientKind::Pod => "a pod",
        ClientKind::Node => "the node",
        ClientKind::Outside => "outside",
        ClientKind::AllowedSource => "an allowed source",
        ClientKind::Given => "this client",
    };
    Some(format!("rules for packets from {client}"))
}

/// Returns the name of a kind of clients in flags and JSON.
pub(super) const fn kind(kind: ClientKind) -> &'static str {
    match kind {
        ClientKind::Pod => "pod",
        ClientKind::Node => "node",
        ClientKind::Outside => "outside",
        ClientKind::AllowedSource => "admitted",
        ClientKind::Given => "source",
    }
}

/// Renders the receivers of the packets of a path, and the source address that they see. If that
/// depends on rules that cannot be evaluated, it is only what happens without them.
pub(super) fn summary(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> String {
    let text = assumed(explanation, path);
    let condition = match (path.other_backend, path.undecided.len()) {
        (Some(_), 0) => "by the rules that are shown",
        (_, 1) => "if it does not match",
        _ => "if none of them matches",
    };
    match unclear(path) {
        Some(unclear) => format!("{unclear}; {condition}: {text}"),
        None => text,
    }
}

/// Renders that a path depends on rules that cannot be evaluated, or on those of another backend.
pub(super) fn unclear(path: &PacketPath<'_>) -> Option<String> {
    let backend = path.other_backend.map(|backend| {
        format!("backend {backend} has rules for these packets as well, which traverse both")
    });
    let undecided = match path.undecided.len() {
        0 => None,
        1 => Some("depends on a rule that cannot be evaluated".to_owned()),
        _ => Some("depends on rules that cannot be evaluated".to_owned()),
    };
    let reasons: Vec<String> = backend.into_iter().chain(undecided).collect();
    (!reasons.is_empty()).then(|| format!("unclear: {}", reasons.join("; ")))
}

/// Returns the condition of the result of a branch; `None` if it is certain.
pub(super) const fn condition(path: &PacketPath<'_>, branch: &Branch<'_>) -> Option<&'static str> {
    match path.other_backend {
        _ if branch.is_unclear => Some("if no rule in `unsure` matches"),
        Some(_) => Some("by the rules of this backend alone"),
        None => None,
    }
}

fn assumed(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> String {
    let [branch] = path.branches.as_slice() else {
        return many(explanation, path);
    };
    match &branch.result {
        PathResult::Served { to, source } => {
            let source = reason_text::seen_source(*source);
            format!(
                "{to} answers{} and sees {source}",
                reason_text::scope(path.scope)
            )
        }
        result => one(explanation, path, result),
    }
}

fn many(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> String {
    let served: Vec<_> = path.branches.iter().filter_map(served).collect();
    let lost: Vec<_> = path
        .branches
        .iter()
        .filter(|branch| self::served(branch).is_none())
        .collect();
    let count = served.len();
    let mut text = match (count, path.branches.first()) {
        (0, Some(_)) => return kinds_of_loss(explanation, path),
        (1, _) => "1 endpoint answers".to_owned(),
        (_, Some(branch))
            if path
                .branches
                .iter()
                .all(|other| other.share == branch.share) =>
        {
            format!("{count} endpoints answer, {} each", branch.share)
        }
        _ => format!("{count} endpoints answer"),
    };
    text.push_str(reason_text::scope(path.scope));
    match served.first() {
        Some((_, source)) if served.iter().all(|(_, other)| other == source) => {
            let verb = if count == 1 { "sees" } else { "see" };
            let _ = write!(text, ", and {verb} {}", reason_text::seen_source(*source));
        }
        _ => text.push_str(", and see different addresses"),
    }
    if let Some(first) = lost.first() {
        let share = lost
            .iter()
            .fold(Share::NONE, |sum, branch| sum.plus(branch.share));
        let lost = first_of(explanation, path, &lost, first);
        let _ = write!(text, "; {share}: {lost}");
    }
    text
}

/// Renders the results of branches without any endpoint that answers, each kind with its share.
fn kinds_of_loss(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> String {
    let mut kinds: Vec<Vec<&Branch<'_>>> = Vec::new();
    for branch in &path.branches {
        let kind = std::mem::discriminant(&branch.result);
        let is_alike = |known: &&mut Vec<&Branch<'_>>| {
            let mut known = known.iter();
            known.any(|known| std::mem::discriminant(&known.result) == kind)
        };
        match kinds.iter_mut().find(is_alike) {
            Some(known) => known.push(branch),
            None => kinds.push(vec![branch]),
        }
    }
    let texts = kinds.iter().filter_map(|lost| {
        let text = first_of(explanation, path, lost, lost.first()?);
        let shares = lost.iter().map(|branch| branch.share);
        let share = shares.fold(Share::NONE, Share::plus);
        Some(match share {
            Share::ALL => text,
            share => format!("{share}: {text}"),
        })
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// Renders the result of the first of several branches without an answer; of those whose replies
/// are lost, all.
fn first_of(
    explanation: &Explanation<'_>,
    path: &PacketPath<'_>,
    lost: &[&Branch<'_>],
    first: &Branch<'_>,
) -> String {
    match first.result {
        PathResult::Unanswered { .. } => reason_text::unanswered(explanation, path, lost),
        _ => one(explanation, path, &first.result),
    }
}

/// Returns the endpoint of a branch and the source address that it sees, if it has one.
pub(super) fn served(branch: &Branch<'_>) -> Option<(SocketAddr, SeenSource)> {
    match branch.result {
        PathResult::Served { to, source } => Some((to, source)),
        _ => None,
    }
}

/// Renders a result of all packets of a path that is not delivery to an endpoint.
fn one(explanation: &Explanation<'_>, path: &PacketPath<'_>, result: &PathResult) -> String {
    if let PathResult::Passed { is_local, source } = result
        && let Some(cause) = reason_text::dead_end(explanation, path)
    {
        let receiver = if *is_local {
            "delivered to this node, rejected unless a process listens on the port"
        } else {
            "routed normally"
        };
        return match source {
            SeenSource::Client => format!("{cause}: {receiver}"),
            other => format!(
                "{cause}: {receiver}; the receiver sees {}",
                reason_text::seen_source(*other)
            ),
        };
    }
    match result {
        PathResult::Passed { is_local: true, .. } if is_health_check(explanation) => {
            "accepted by this node: health check of the Service's local endpoints".to_owned()
        }
        PathResult::Passed { is_local: true, .. } => {
            "not redirected: delivered to this node, rejected unless a process listens on the port"
                .to_owned()
        }
        PathResult::Passed {
            source: SeenSource::Client,
            ..
        } if explanation.to.is_endpoint() => {
            "endpoint address, not redirected by Service rules: routed normally".to_owned()
        }
        PathResult::Passed {
            source: SeenSource::Client,
            ..
        } => "not a Service address: routed normally".to_owned(),
        PathResult::Passed { source, .. } => {
            format!(
                "not redirected; the receiver sees {}",
                reason_text::seen_source(*source)
            )
        }
        PathResult::Dropped(why) => format!(
            "dropped: {}",
            reason_text::block_reason(explanation, path, why)
        ),
        PathResult::Rejected(why) => format!(
            "rejected: {}",
            reason_text::block_reason(explanation, path, why)
        ),
        PathResult::Unclear(why) => format!("unclear: {why}"),
        PathResult::MissingTable(table) => {
            format!("unclear: {}", reason_text::missing_table(*table))
        }
        PathResult::Unanswered { .. } => unanswered(explanation, path, result),
        PathResult::Served { to, .. } => to.to_string(),
    }
}

fn is_health_check(explanation: &Explanation<'_>) -> bool {
    let mut frontends = explanation.to.frontends.iter();
    frontends.any(|frontend| frontend.kind == FrontendKind::HealthCheck)
}

/// Renders the loss of replies to all branches with that result.
fn unanswered(explanation: &Explanation<'_>, path: &PacketPath<'_>, result: &PathResult) -> String {
    let branches = path.branches.iter();
    let equal: Vec<_> = branches.filter(|one| one.result == *result).collect();
    reason_text::unanswered(explanation, path, &equal)
}
