//! Desired rules: renders objects as the daemon does in its first sync, and the payloads that it
//! would restore, given the rules in the kernel.
//!
//! `render --since` prints a payload. Full payloads depend on the live rules, partial ones on the
//! applied state.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::proxy_report::{self, ServiceNames};
use super::{RuleOrigin, RuleSnapshot, objects};
use crate::cli::exit::ErrorReport;
use crate::cli::terminal::Progress;
use crate::config::{RenderConfig, Source};
use crate::host::local_addresses;
use crate::model::{Allowance, ServiceName, Services};
use crate::net::IpFamily;
use crate::render::{
    self, AppliedState, FullPayload, LiveChains, LocalDetector, Options, PartialRestore,
    is_service_chain,
};
use crate::rules::{Payload, RuleSet, Table};
use crate::sync::RerenderReason;
use crate::tracker::Tracker;

/// Renders the rules of both families for a host without other rules.
pub(super) fn snapshot(
    config: &RenderConfig,
    report: &ErrorReport,
) -> anyhow::Result<RuleSnapshot> {
    let (trackers, service_types) = objects::read(config, Some(report))?;
    if matches!(config.source, Source::Cluster(_)) && trackers.v4.node().is_none() {
        tracing::warn!("{}", objects::unknown_node(&config.node_name));
    }
    let _progress = Progress::start("rendering");
    let nodes = [&trackers.v4, &trackers.v6].into_iter();
    let nodes = nodes.filter_map(Tracker::node);
    let mut snapshot = RuleSnapshot {
        origin: RuleOrigin::Desired,
        families: IpFamily::ALL.into(),
        node_addresses: nodes.flat_map(|node| node.addresses.clone()).collect(),
        conflicts: trackers
            .as_ref()
            .map(|_, tracker| proxy_report::of_tracker(tracker)),
        over_limit: trackers.as_ref().map(|_, tracker| over_limit(tracker)),
        service_types: Some(service_types),
        ..RuleSnapshot::default()
    };
    for (family, tracker) in trackers.pairs() {
        let options = &options(config, family, tracker)?;
        *snapshot.rules.get_mut(family) = RenderSide { tracker, options }.rules()?.0;
        *snapshot.pods.get_mut(family) = match &options.local_traffic {
            LocalDetector::Cidr(network) => network.to_string().parse().ok(),
            _ => None,
        };
    }
    Ok(snapshot)
}

/// Returns the Services that lack rules because of a limit.
fn over_limit(tracker: &Tracker) -> ServiceNames {
    let over = tracker.all().filter(|(_, state)| {
        state.allowance != Allowance::Full || render::count_ports_over_limit(state) > 0
    });
    ServiceNames(over.map(|(name, _)| name.as_str().to_owned()).collect())
}

/// Returns the render options of a family on this host.
pub(in crate::cli) fn options(
    config: &RenderConfig,
    family: IpFamily,
    tracker: &Tracker,
) -> anyhow::Result<Options> {
    let settings = config.render_settings.get(family);
    let addresses = if settings.needs_node_addresses() {
        local_addresses()?.into_iter().collect()
    } else {
        Vec::new()
    };
    Ok(settings.options(tracker.node(), &addresses))
}

/// Objects and render options of one family.
#[derive(Clone, Copy)]
pub(in crate::cli) struct RenderSide<'a> {
    pub(in crate::cli) tracker: &'a Tracker,
    pub(in crate::cli) options: &'a Options,
}

impl RenderSide<'_> {
    /// Returns the rules in a kernel without other rules, and the applied state after their
    /// restore.
    pub(in crate::cli) fn rules(self) -> anyhow::Result<(RuleSet, AppliedState)> {
        let live = LiveChains::default();
        let mut payload = FullPayload::new(self.tracker, self.options, &live);
        let mut text = Vec::new();
        while payload.write_next(&mut text) {}
        let applied = payload.finish().0;
        let rules = RuleSet::parse(&String::from_utf8_lossy(&text))?;
        Ok((rules, applied))
    }

    /// Renders the full payload for a kernel with the `live` rules.
    pub(in crate::cli) fn full(self, live: &RuleSet) -> Vec<u8> {
        let live = read_live(live);
        let mut payload = FullPayload::new(self.tracker, self.options, &live);
        let mut text = Vec::new();
        while payload.write_next(&mut text) {}
        text
    }

    /// Renders the payload that the daemon would restore if the cluster changed from `before` to
    /// this side between two syncs, and the reason if it is a full one.
    pub(in crate::cli) fn after(
        self,
        before: Self,
        partial_restore: PartialRestore,
    ) -> anyhow::Result<(Vec<u8>, Option<RerenderReason>)> {
        if let Some(why) = RerenderReason::between(before.options, self.options) {
            let (live, _) = before.rules()?;
            return Ok((self.full(&live), Some(why)));
        }
        let (_, mut applied) = before.rules()?;
        let (old, new) = (before.tracker, self.tracker);
        let all = old.all().chain(new.all());
        let changed = all.filter(|(name, _)| old.get(name) != new.get(name));
        let names: BTreeSet<&ServiceName> = changed.map(|(name, _)| name).collect();
        let dirty = names.iter().copied();
        let partial =
            render::partial_payload(&mut applied, new, dirty, self.options, partial_restore);
        Ok((partial.text, None))
    }
}

/// Reads the part of the rules that a full payload depends on: the chains, and the jumps from
/// other chains to ours.
fn read_live(rules: &RuleSet) -> LiveChains {
    let mut live = LiveChains::default();
    for table in Table::ALL {
        let mut text = String::new();
        for (name, chain) in rules.chains(table) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, ":{name}");
            if table == Table::Nat && is_service_chain(name) {
                continue;
            }
            for rule in chain
                .rules
                .iter()
                .filter(|rule| rule.target_chain().is_some())
            {
                let _ = writeln!(text, "-A {name} {rule}");
            }
        }
        live.read_table(table, &text);
    }
    live
}

#[cfg(test)]
#[path = "tests/desired.rs"]
mod tests;
