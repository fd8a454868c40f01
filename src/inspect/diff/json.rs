//! Renders reviews as machine-readable JSON.

use serde_json::{Value, json};

use super::document::{
    BeforeAfter, DiffChain, DiffClients, DiffDocument, DiffEffect, DiffNotCompared, DiffPort,
    DiffRestore, DiffSummary, FamilyChain, LeftOut, PortNotCompared, ShareChange,
    UnreadableChainDocument,
};
use super::edit::Edit;
use super::effect::{Effect, EndpointChange, MasqueradedClients, Traffic};
use super::review::{
    ChainReview, ManifestFacts, PlannedRestore, PortChange, PortReview, Presence, RestoreScope,
    Review, Summary,
};
use crate::inspect::catalog::Policy;
use crate::net::IpFamily;
use crate::rules::Backend;

/// Renders the reviews of all IP families as one document, whose keys are sorted.
pub fn json(reviews: &[Review<'_>], facts: &ManifestFacts) -> Value {
    let mut ports: Vec<(&PortReview<'_>, IpFamily)> = Vec::new();
    for review in reviews {
        ports.extend(review.ports.iter().map(|port| (port, review.family)));
    }
    ports.sort_by(|left, right| (&left.0.name, left.1).cmp(&(&right.0.name, right.1)));
    let ports = ports.into_iter();
    let restores = reviews.iter();
    let restores = restores.filter_map(|one| Some(restore(one.restore.as_ref()?, one.family)));
    json!(DiffDocument {
        families: reviews.iter().map(|one| one.family.as_str()).collect(),
        summary: summary(&reviews.iter().collect(), facts),
        service_ports: ports
            .map(|(port, family)| service_port(port, family))
            .collect(),
        set_up: chains(reviews, |review| &review.fixed),
        stale_chains: chains(reviews, |review| &review.stale),
        not_compared: DiffNotCompared {
            service_ports: reviews.iter().flat_map(ports_not_compared).collect(),
            chains: reviews.iter().flat_map(unreadable_chains).collect(),
            families_with_legacy_rules: reviews
                .iter()
                .filter(|one| one.not_compared.backend == Some(Backend::Legacy))
                .map(|one| one.family.as_str())
                .collect(),
        },
        assumptions: &facts.assumptions,
        restores: restores.collect(),
    })
}

fn ports_not_compared<'r>(review: &'r Review<'_>) -> impl Iterator<Item = PortNotCompared<'r>> {
    let family = review.family.as_str();
    review
        .not_compared
        .ports
        .iter()
        .map(move |port| PortNotCompared {
            namespace: port.namespace(),
            service: port.service(),
            port: port.port(),
            protocol: &port.protocol,
            family,
        })
}

fn unreadable_chains<'r>(
    review: &'r Review<'_>,
) -> impl Iterator<Item = UnreadableChainDocument<'r>> {
    let family = review.family.as_str();
    review
        .not_compared
        .chains
        .iter()
        .map(move |one| UnreadableChainDocument {
            family,
            table: one.table.as_str(),
            chain: one.chain,
            rules: one.rules,
        })
}

const fn summary(summary: &Summary, facts: &ManifestFacts) -> DiffSummary {
    DiffSummary {
        changed: summary.changed,
        added: summary.added,
        removed: summary.removed,
        cosmetic: summary.cosmetic,
        set_up: summary.fixed,
        stale: summary.stale,
        chains: summary.chains,
        hidden_objects: facts.hidden_objects,
        foreign_rules: summary.third_party,
        left_out: LeftOut {
            service_ports: summary.unselected_ports,
            chains: summary.unselected_chains,
        },
    }
}

fn service_port<'a>(port: &'a PortReview<'_>, family: IpFamily) -> DiffPort<'a> {
    DiffPort {
        namespace: port.name.namespace(),
        service: port.name.service(),
        port: port.name.port(),
        protocol: &port.name.protocol,
        family: family.as_str(),
        verdict: match port.change {
            PortChange::Appears => "appears",
            PortChange::Disappears => "disappears",
            PortChange::Changes => "changes",
            PortChange::Cosmetic => "cosmetic",
        },
        effects: port.effects.iter().map(effect).collect(),
        chains: port.chains.iter().map(chain).collect(),
    }
}

fn chains<'r>(
    reviews: &'r [Review<'r>],
    of: impl Fn(&'r Review<'r>) -> &'r [ChainReview<'r>],
) -> Vec<FamilyChain<'r>> {
    let of_review = |review: &'r Review<'r>| {
        let family = review.family.as_str();
        of(review).iter().map(move |one| FamilyChain {
            family,
            chain: chain(one),
        })
    };
    reviews.iter().flat_map(of_review).collect()
}

fn chain<'a>(review: &'a ChainReview<'_>) -> DiffChain<'a> {
    let rules = |is_added: bool| {
        let edits = review.edits.iter();
        let rules = edits.filter_map(move |edit| match edit {
            Edit::Added(rule) if is_added => Some(rule.to_string()),
            Edit::Removed(rule) if !is_added => Some(rule.to_string()),
            _ => None,
        });
        rules.collect()
    };
    DiffChain {
        table: review.table.as_str(),
        chain: review.chain,
        side: match review.presence {
            Presence::Both => "both",
            Presence::Live => "left",
            Presence::Desired => "right",
        },
        cosmetic: review.is_cosmetic,
        reordered: review.is_reordered,
        removed: rules(false),
        added: rules(true),
    }
}

fn restore(restore: &PlannedRestore, family: IpFamily) -> DiffRestore<'_> {
    DiffRestore {
        family: family.as_str(),
        scope: match restore.scope {
            RestoreScope::Full => "full",
            RestoreScope::Partial => "partial",
        },
        reason: restore.reason,
        services: restore.services,
        chains: restore.chains,
        lines: restore.lines,
        bytes: restore.bytes,
        payload: restore.payload.as_deref(),
    }
}

fn effect(effect: &Effect) -> DiffEffect<'_> {
    match effect {
        Effect::FrontendAdded(one) => DiffEffect::EntranceAdded { entrance: one },
        Effect::FrontendRemoved(one) => DiffEffect::EntranceRemoved { entrance: one },
        Effect::DispositionChanged { frontend, before } => DiffEffect::Fate {
            entrance: frontend,
            before: *before,
        },
        Effect::PolicyChanged {
            traffic,
            before,
            after,
        } => policy(*traffic, *before, *after),
        Effect::EndpointsChanged(change) => endpoints(change),
        Effect::ShareChanged {
            policy,
            endpoint,
            before,
            after,
        } => {
            let shares = ShareChange {
                address: endpoint.to_string(),
                before: before.to_string(),
                after: after.to_string(),
            };
            match policy {
                Policy::Cluster => DiffEffect::ClusterShare(shares),
                Policy::Local => DiffEffect::LocalShare(shares),
            }
        }
        Effect::AffinityChanged { before, after } => DiffEffect::AffinitySeconds(BeforeAfter {
            before: before.map(|timeout| timeout.as_secs()),
            after: after.map(|timeout| timeout.as_secs()),
        }),
        Effect::SourceRangesChanged { added, removed } => DiffEffect::SourceRanges {
            added: texts(added),
            removed: texts(removed),
        },
        Effect::MasqueradeChanged { before, after } => DiffEffect::Masquerade {
            before: Some(before.as_ref().map(clients)),
            after: Some(after.as_ref().map(clients)),
        },
        Effect::MasqueradeRules => DiffEffect::Masquerade {
            before: None,
            after: None,
        },
        Effect::FilterRules => DiffEffect::Refusals,
        Effect::Reordered => DiffEffect::Order,
        Effect::OtherRules => DiffEffect::Rules,
    }
}

fn policy(traffic: Traffic, before: Option<Policy>, after: Option<Policy>) -> DiffEffect<'static> {
    let policies = BeforeAfter {
        before: before.map(Policy::as_str),
        after: after.map(Policy::as_str),
    };
    match traffic {
        Traffic::Internal => DiffEffect::InternalTrafficPolicy(policies),
        Traffic::External => DiffEffect::ExternalTrafficPolicy(policies),
    }
}

fn endpoints(change: &EndpointChange) -> DiffEffect<'_> {
    DiffEffect::Endpoints {
        policy: change.policy.as_str(),
        entrances: &change.frontends,
        before: change.before,
        after: change.after,
        added: texts(&change.added),
        removed: texts(&change.removed),
    }
}

fn clients(clients: &MasqueradedClients) -> DiffClients<'_> {
    let (kind, network, interface) = match clients {
        MasqueradedClients::All => ("all", None, None),
        MasqueradedClients::OutsideNetwork(network) => ("outside", Some(network.to_string()), None),
        MasqueradedClients::OutsideInterface(name) => ("outside", None, Some(&**name)),
    };
    DiffClients {
        kind,
        network,
        interface,
    }
}

fn texts(all: &[impl ToString]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}
