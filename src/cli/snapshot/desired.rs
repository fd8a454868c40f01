//! What would be written: objects in, rules out, as the daemon would after its first sync.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use super::lacking::{self, OtherNodes};
use super::{Origin, Snapshot, cluster, conflicts};
use crate::cli::progress::Progress;
use crate::config::{RenderConfig, Source};
use crate::host::local_addresses;
use crate::model::Change;
use crate::net::{IpFamily, PerFamily};
use crate::render::{AppliedState, Full, Live, LocalDetector, Options, Setting};
use crate::rules::Payload;
use crate::tracker::Tracker;
use crate::watch::Outlet;
use crate::watch::manifests::{self, ManifestOptions};

type Changes = PerFamily<Vec<Change>>;

/// The rules of both families on a machine without any other.
pub(in crate::cli) fn render(config: &RenderConfig) -> anyhow::Result<Snapshot> {
    let trackers = trackers(config)?;
    if matches!(config.source, Source::Cluster(_)) && trackers.v4.node().is_none() {
        tracing::warn!("{}", lacking::unknown_node(&config.node_name));
    }
    let _progress = Progress::start("rendering");
    let mut snapshot = Snapshot {
        origin: Origin::Desired,
        families: IpFamily::ALL.into(),
        node_addresses: node_addresses(&trackers),
        conflicts: trackers
            .as_ref()
            .map(|_, tracker| conflicts::of_tracker(tracker)),
        ..Snapshot::default()
    };
    for (family, tracker) in trackers.as_ref().into_pairs() {
        let options = options(config, family, tracker)?;
        let (text, _) = full(setting(tracker, &options), tracker);
        let rules = snapshot.rules.get_mut(family);
        rules.apply(&String::from_utf8_lossy(&text))?;
        *snapshot.pods.get_mut(family) = match &options.local_traffic {
            LocalDetector::Cidr(network) => network.to_string().parse().ok(),
            _ => None,
        };
    }
    Ok(snapshot)
}

/// What the renderer is told of a family.
pub(in crate::cli) fn setting<'a>(tracker: &'a Tracker, options: &'a Options) -> Setting<'a> {
    Setting {
        options,
        zone: tracker.node().and_then(|node| node.zone.as_deref()),
    }
}

/// The full payload for a machine without rules, and the books of whoever restores it.
pub(in crate::cli) fn full(setting: Setting<'_>, tracker: &Tracker) -> (Vec<u8>, AppliedState) {
    let live = Live::default();
    let mut payload = Full::new(tracker, setting, &live);
    let mut text = Vec::new();
    while payload.write_next(&mut text) {}
    (text, payload.finish().0)
}

/// Trackers that know every object; says what these lack.
pub(in crate::cli) fn trackers(config: &RenderConfig) -> anyhow::Result<PerFamily<Tracker>> {
    let progress = Progress::start(match &config.source {
        Source::Manifests { .. } => "reading manifests",
        Source::Cluster(_) => "asking the API server",
    });
    let (changes, other_nodes) = changes(config)?;
    let trackers = changes.map(|family, changes| {
        let external_ips = config.surroundings.get(family).fixed.external_ips;
        let mut tracker = Tracker::new(SystemTime::UNIX_EPOCH).with_external_ips(external_ips);
        for change in changes {
            tracker.apply(change);
        }
        tracker
    });
    drop(progress);
    for warning in lacking::warnings(&trackers, &config.node_name, &other_nodes) {
        tracing::warn!("{warning}");
    }
    Ok(trackers)
}

/// The renderer's options for a family on this machine.
pub(in crate::cli) fn options(
    config: &RenderConfig,
    family: IpFamily,
    tracker: &Tracker,
) -> anyhow::Result<Options> {
    let surroundings = config.surroundings.get(family);
    let machine = if surroundings.needs_machine_addresses() {
        local_addresses()?.into_iter().collect()
    } else {
        Vec::new()
    };
    Ok(surroundings.options(tracker.node(), &machine))
}

fn node_addresses(trackers: &PerFamily<Tracker>) -> BTreeSet<IpAddr> {
    let nodes = trackers.as_ref().into_pairs().into_iter();
    let nodes = nodes.filter_map(|(_, tracker)| tracker.node());
    nodes
        .flat_map(|node| node.addresses.iter().copied())
        .collect()
}

fn changes(config: &RenderConfig) -> anyhow::Result<(Changes, OtherNodes)> {
    let node_name: Arc<str> = config.node_name.as_str().into();
    let mut outlet = Outlet::once(Changes::default(), Arc::clone(&node_name));
    let other_nodes = match &config.source {
        Source::Manifests {
            path,
            service_cidrs,
        } => {
            let options = ManifestOptions {
                node_name,
                service_ranges: *service_cidrs,
            };
            let manifests = manifests::load(path, &options)?;
            for note in &manifests.notes {
                tracing::warn!("{note}");
            }
            manifests.send(&mut outlet);
            OtherNodes::Named(manifests.other_nodes)
        }
        Source::Cluster(options) => {
            cluster::list(options, &node_name, &mut outlet)?;
            OtherNodes::NotAsked
        }
    };
    Ok((outlet.into_sink(), other_nodes))
}
