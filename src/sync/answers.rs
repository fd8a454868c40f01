//! Answers of a family to the requests of pages, from memory: no program is run and nothing is read
//! from the kernel.

use super::kernel::KernelState;
use super::report::Reporter;
use super::syncer::Syncer;
use crate::host::Iptables;
use crate::model::{Service, ServiceName, ServiceState, Topology};
use crate::render::{applied_rules_of, endpoints_upper_bound};
use crate::status::{
    FamilyRequest, FamilyService, FamilyStatus, RulesSummary, ServiceDetail, ServiceRulesText,
    ServiceSearch, ServicesAsked,
};

/// Maximum rules of a Service that are rendered for a page, without those that each endpoint has
/// besides the first: a page shows some hundred lines.
const MOST_RULES: usize = 1000;

pub(super) fn answer<I: Iptables>(request: FamilyRequest, syncer: &Syncer<I>, reporter: &Reporter) {
    match request {
        FamilyRequest::Rules(question) => {
            let status = status(syncer, reporter);
            let is_known = status.unknown.is_empty();
            question.answer_rules(reporter.family, &status, |sink| {
                if is_known {
                    syncer.write_applied(sink);
                }
            });
        }
        FamilyRequest::Names(question) => question.answer(|search| names(syncer, &search)),
        FamilyRequest::Services(question) => question.answer(|asked| services(syncer, &asked)),
    }
}

/// Returns the state of the family for the head of its rules.
fn status<I: Iptables>(syncer: &Syncer<I>, reporter: &Reporter) -> FamilyStatus {
    let mut status = reporter.status().without_recent_syncs();
    unknown(syncer, reporter).clone_into(&mut status.unknown);
    status
}

/// Returns the reason for which the rules in the kernel are not known; empty if they are.
pub(super) fn unknown<I: Iptables>(syncer: &Syncer<I>, reporter: &Reporter) -> &'static str {
    match &syncer.kernel {
        // After a failed restore, dispatch rules may be desired that the kernel does not have.
        _ if reporter.status().failed_syncs > 0 => "the last sync failed",
        KernelState::Known(..) => "",
        KernelState::Unknown { reason, .. } => reason.as_str(),
    }
}

fn names<I: Iptables>(syncer: &Syncer<I>, search: &ServiceSearch) -> Vec<ServiceName> {
    let found = syncer
        .tracker
        .applied()
        .filter(|(name, state)| state.service.is_some() && search.finds(name, state));
    found.map(|(name, _)| name.clone()).collect()
}

fn services<I: Iptables>(syncer: &Syncer<I>, asked: &ServicesAsked) -> Vec<Option<FamilyService>> {
    let tracker = &syncer.tracker;
    // Without an applied sync, no Service has rules.
    let unknown = Topology::default();
    let options = syncer.history.last_options.as_ref();
    let topology = options.map_or(&unknown, |options| &options.topology);
    let service = |name| {
        let state = tracker.applied_state(name)?;
        Some(FamilyService {
            summary: RulesSummary::of(
                name,
                &state,
                topology,
                syncer.config.render_settings.fixed.external_ips,
                asked.limits,
            )?,
            is_pending: tracker.is_dirty(name),
            rules: match asked.detail {
                ServiceDetail::Row => ServiceRulesText::NotAsked,
                ServiceDetail::Page => rules(syncer, name, &state),
            },
        })
    };
    asked.names.iter().map(service).collect()
}

fn rules<I: Iptables>(
    syncer: &Syncer<I>,
    name: &ServiceName,
    state: &ServiceState,
) -> ServiceRulesText {
    let service = state.service.as_deref();
    let most = service.map_or(0, Service::rules_without_endpoints);
    if most.saturating_add(endpoints_upper_bound(state)) > MOST_RULES {
        return ServiceRulesText::TooMany;
    }
    match &syncer.kernel {
        KernelState::Known(applied, options) => {
            ServiceRulesText::Known(applied_rules_of(applied, (name, state), options))
        }
        KernelState::Unknown { reason, .. } => ServiceRulesText::Unknown(reason.as_str()),
    }
}
