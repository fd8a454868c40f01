//! `KUBE-SEP` chains, and the rules of the policy chains that pick one.
//!
//! Apart from the rest of a Service because there are as many of these as there are endpoints:
//! nearly all of a rule set is written here.

use super::balance::Probability;
use super::chain::{ChainKind, ServiceChain};
use super::options::Comments;
use super::plan::Plan;
use super::sheet::Sheet;
use crate::select::Candidate;

/// An endpoint with its chain's name, which is too dear to compute twice.
pub(super) struct Reachable<'a> {
    pub(super) candidate: Candidate<'a>,
    pub(super) chain: ServiceChain,
}

/// The endpoints that need a chain.
pub(super) fn reachable<'a>(plan: &Plan<'a>) -> Vec<Reachable<'a>> {
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

/// One chain for each endpoint: where packets are finally sent.
///
/// An endpoint that reaches itself through its Service must see another source address than its
/// own, or it would answer itself directly: hence the masquerade rule for its own address.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Generate the per-endpoint chains"
/// (v1.36)
pub(super) fn write_chains(
    sheet: &mut Sheet,
    plan: &Plan<'_>,
    endpoints: &[Reachable<'_>],
    comments: Comments,
) {
    for Reachable { candidate, chain } in endpoints {
        sheet.begin_chain(*chain);
        let mut hairpin = sheet.rule();
        if comments == Comments::Everywhere {
            hairpin = hairpin.bare_comment(plan.name);
        }
        hairpin.source(candidate.endpoint.ip).jump("KUBE-MARK-MASQ");
        let mut dnat = sheet.rule();
        if comments == Comments::Everywhere {
            dnat = dnat.bare_comment(plan.name);
        }
        if plan.service.affinity.is_some() {
            dnat = dnat.words("-m recent --name").chain(*chain).words("--set");
        }
        dnat.protocol(plan.port.protocol)
            .dnat(candidate.text.as_bytes());
        sheet.end_chain();
    }
}

/// The rules of a policy chain: back to the endpoint that served this client last, or else to any
/// with equal chances.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `writeServiceToEndpointRules` (v1.36)
pub(super) fn write_choice(
    sheet: &mut Sheet,
    plan: &Plan<'_>,
    kind: ChainKind,
    endpoints: &[Reachable<'_>],
    comments: Comments,
) {
    let is_chosen = |endpoint: &&Reachable<'_>| match kind {
        ChainKind::Local => endpoint.candidate.in_local,
        _ => endpoint.candidate.in_cluster,
    };
    let count = endpoints.iter().filter(is_chosen).count();
    if let Some(timeout) = plan.service.affinity {
        for endpoint in endpoints.iter().filter(is_chosen) {
            choice(sheet, plan, endpoint, comments)
                .words("-m recent --name")
                .chain(endpoint.chain)
                .words("--rcheck --seconds")
                .number(timeout.as_secs())
                .words("--reap")
                .jump_to(endpoint.chain);
        }
    }
    for (position, endpoint) in endpoints.iter().filter(is_chosen).enumerate() {
        let rule = choice(sheet, plan, endpoint, comments);
        match Probability::at(position, count) {
            Some(share) => rule.probability(share).jump_to(endpoint.chain),
            None => rule.jump_to(endpoint.chain),
        }
    }
}

fn choice<'s>(
    sheet: &'s mut Sheet,
    plan: &Plan<'_>,
    endpoint: &Reachable<'_>,
    comments: Comments,
) -> super::pen::Pen<'s> {
    let rule = sheet.rule();
    match comments {
        Comments::Everywhere => {
            rule.comment(format_args!("{} -> {}", plan.name, endpoint.candidate.text))
        }
        Comments::NotOnEndpoints => rule,
    }
}
