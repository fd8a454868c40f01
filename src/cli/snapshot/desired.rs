//! Desired rules: reads objects from manifests or a cluster, and renders them as the daemon does
//! in its first sync.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::SystemTime;

use super::cluster;
use super::missing::{self, OtherNodes};
use super::rules::ServiceTypes;
use super::{RuleOrigin, RuleSnapshot, proxy_report};
use crate::cli::exit::ErrorReport;
use crate::cli::terminal::{Progress, escaped};
use crate::config::{RenderConfig, Source};
use crate::host::local_addresses;
use crate::model::Change;
use crate::net::{IpFamily, PerFamily};
use crate::render::{AppliedState, FullPayload, LiveChains, LocalDetector, Options};
use crate::rules::Payload;
use crate::tracker::Tracker;
use crate::watch::manifests::{self, AssumedValueKind, ManifestRanges, Manifests};
use crate::watch::{ChangeReceivers, Ingester, change_channels};

type ObjectChanges = PerFamily<Vec<Change>>;

/// Renders the rules of both families for a host without other rules.
pub(super) fn render(config: &RenderConfig, report: &ErrorReport) -> anyhow::Result<RuleSnapshot> {
    let DesiredObjects {
        trackers,
        service_types,
        ..
    } = objects(config, Some(report))?;
    if matches!(config.source, Source::Cluster(_)) && trackers.v4.node().is_none() {
        tracing::warn!("{}", missing::unknown_node(&config.node_name));
    }
    let _progress = Progress::start("rendering");
    let mut snapshot = RuleSnapshot {
        origin: RuleOrigin::Desired,
        families: IpFamily::ALL.into(),
        node_addresses: node_addresses(&trackers),
        conflicts: trackers
            .as_ref()
            .map(|_, tracker| proxy_report::of_tracker(tracker)),
        service_types: Some(service_types),
        ..RuleSnapshot::default()
    };
    for (family, tracker) in trackers.as_ref().into_pairs() {
        let options = options(config, family, tracker)?;
        let (text, _) = full(&options, tracker);
        let rules = snapshot.rules.get_mut(family);
        rules.apply(&String::from_utf8_lossy(&text))?;
        *snapshot.pods.get_mut(family) = match &options.local_traffic {
            LocalDetector::Cidr(network) => network.to_string().parse().ok(),
            _ => None,
        };
    }
    Ok(snapshot)
}

/// Renders the full payload for a host without rules, and the applied state after its restore.
pub(in crate::cli) fn full(options: &Options, tracker: &Tracker) -> (Vec<u8>, AppliedState) {
    let live = LiveChains::default();
    let mut payload = FullPayload::new(tracker, options, &live);
    let mut text = Vec::new();
    while payload.write_next(&mut text) {}
    (text, payload.finish().0)
}

/// Objects of manifests or a cluster.
pub(in crate::cli) struct DesiredObjects {
    /// All of them.
    pub(in crate::cli) trackers: PerFamily<Tracker>,
    service_types: ServiceTypes,
}

/// Reads all objects; warns of objects that are missing.
///
/// # Errors
///
/// A source cannot be read. Without a report, also any error of manifests.
pub(in crate::cli) fn objects(
    config: &RenderConfig,
    report: Option<&ErrorReport>,
) -> anyhow::Result<DesiredObjects> {
    let (objects, service_types) = changes(config, report)?;
    Ok(DesiredObjects {
        trackers: track(config, objects),
        service_types,
    })
}

/// Returns trackers with all objects of manifests that were read before.
pub(in crate::cli) fn manifest_trackers(
    config: &RenderConfig,
    manifests: Manifests,
) -> PerFamily<Tracker> {
    track(config, changes_of(manifests, &config.node_name))
}

fn track(
    config: &RenderConfig,
    (changes, other_nodes): (ObjectChanges, OtherNodes),
) -> PerFamily<Tracker> {
    let trackers = changes.map(|family, changes| {
        let external_ips = config.render_settings.get(family).fixed.external_ips;
        let mut tracker = Tracker::new(SystemTime::UNIX_EPOCH).with_external_ips(external_ips);
        for change in changes {
            tracker.apply(change);
        }
        tracker
    });
    for warning in missing::warnings(&trackers, &config.node_name, &other_nodes) {
        tracing::warn!("{warning}");
    }
    trackers
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

fn node_addresses(trackers: &PerFamily<Tracker>) -> BTreeSet<IpAddr> {
    let nodes = trackers.as_ref().into_pairs().into_iter();
    let nodes = nodes.filter_map(|(_, tracker)| tracker.node());
    nodes
        .flat_map(|node| node.addresses.iter().copied())
        .collect()
}

fn changes(
    config: &RenderConfig,
    report: Option<&ErrorReport>,
) -> anyhow::Result<((ObjectChanges, OtherNodes), ServiceTypes)> {
    match &config.source {
        Source::Manifests {
            path,
            ranges,
            validation,
        } => {
            let progress = Progress::start("reading manifests");
            let options = config.manifest_options(ranges);
            let manifests = match report {
                Some(_) => manifests::load(path, &options, *validation)?,
                None => manifests::load_complete(path, &options, *validation)?,
            };
            drop(progress);
            if let Some(report) = report {
                report.print(&manifests.errors);
            }
            warn_of_load_balancers(&manifests, ranges);
            warn_of_missing_addresses(&manifests);
            let types = ServiceTypes::read(manifests.services.iter().map(|one| &**one));
            Ok((changes_of(manifests, &config.node_name), types))
        }
        Source::Cluster(options) => {
            let (senders, receivers) = change_channels(None);
            let mut ingester = Ingester::for_command(senders, config.node_name.as_str().into());
            let types = cluster::list(options, &config.node_name, &mut ingester)?;
            Ok(((taken(receivers), OtherNodes::Unknown), types))
        }
    }
}

/// Warns of load balancer IPs that no controller has reported. Cluster IPs and node ports need no
/// warning: the daemon derives the same ones from manifests.
fn warn_of_load_balancers(manifests: &Manifests, ranges: &ManifestRanges) {
    let mut assumed = manifests.assumptions.clone();
    assumed.retain(|one| one.kind == AssumedValueKind::LoadBalancerIp);
    for line in manifests::assumption_lines(&assumed, ranges) {
        let line = escaped(&line);
        tracing::warn!("assumed, as the manifests do not have them: {line}");
    }
}

/// Warns of load balancers that have no address, neither a reported nor an assumed one.
fn warn_of_missing_addresses(manifests: &Manifests) {
    let services = manifests.services.iter();
    let without = services.filter(|service| {
        service.spec.type_ == "LoadBalancer" && service.status.load_balancer.ingress.is_empty()
    });
    let names: Vec<String> = without
        .map(|service| format!("{}/{}", service.metadata.namespace, service.metadata.name))
        .collect();
    if let Some(first) = names.first() {
        tracing::warn!(
            "load balancers without an address in the input: {}, such as {first}: treated as \
             without one\n\
             hint: include their status: kubectl get services -A -o yaml",
            names.len()
        );
    }
}

fn changes_of(manifests: Manifests, node_name: &str) -> (ObjectChanges, OtherNodes) {
    let (senders, receivers) = change_channels(None);
    let mut ingester = Ingester::for_command(senders, node_name.into());
    for note in &manifests.notes {
        tracing::warn!("{}", escaped(note));
    }
    manifests.send(&mut ingester);
    (taken(receivers), OtherNodes::Named(manifests.other_nodes))
}

fn taken(receivers: ChangeReceivers) -> ObjectChanges {
    receivers.families.map(|_, mut changes| changes.take())
}
