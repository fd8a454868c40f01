//! Desired rules: reads objects from manifests or a cluster, and renders them as the daemon does
//! in its first sync.

use std::collections::BTreeSet;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::missing::{self, OtherNodes};
use super::{RuleOrigin, RuleSnapshot, proxy_report};
use crate::cli::exit;
use crate::cli::terminal::Progress;
use crate::config::{RenderConfig, Source, Unusable};
use crate::host::local_addresses;
use crate::model::Change;
use crate::net::{IpFamily, PerFamily};
use crate::render::{AppliedState, Full, LiveChains, LocalDetector, Options, RenderContext};
use crate::rules::Payload;
use crate::tracker::Tracker;
use crate::watch::api::{self, ApiError, ApiOptions, ClientConfigError, ConnectFailure};
use crate::watch::manifests::{self, AssumedValue, ManifestOptions, ManifestRanges, Manifests};
use crate::watch::{ChangeReceivers, Ingester, Observed, change_channels};

type ObjectChanges = PerFamily<Vec<Change>>;

/// Renders the rules of both families for a host without other rules.
pub(in crate::cli) fn render(config: &RenderConfig) -> anyhow::Result<RuleSnapshot> {
    let trackers = trackers(config)?;
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
        ..RuleSnapshot::default()
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

/// Returns the render inputs of a family.
pub(in crate::cli) fn setting<'a>(tracker: &'a Tracker, options: &'a Options) -> RenderContext<'a> {
    RenderContext {
        options,
        zone: tracker.node().and_then(|node| node.zone.as_deref()),
    }
}

/// Renders the full payload for a host without rules, and the applied state after its restore.
pub(in crate::cli) fn full(
    setting: RenderContext<'_>,
    tracker: &Tracker,
) -> (Vec<u8>, AppliedState) {
    let live = LiveChains::default();
    let mut payload = Full::new(tracker, setting, &live);
    let mut text = Vec::new();
    while payload.write_next(&mut text) {}
    (text, payload.finish().0)
}

/// Returns trackers with all objects; warns of objects that are missing.
pub(in crate::cli) fn trackers(config: &RenderConfig) -> anyhow::Result<PerFamily<Tracker>> {
    let progress = Progress::start(match &config.source {
        Source::Manifests { .. } => "reading manifests",
        Source::Cluster(_) => "listing objects of the API server",
    });
    let (changes, other_nodes) = changes(config)?;
    drop(progress);
    Ok(track(config, changes, &other_nodes))
}

/// Returns trackers with all objects of manifests that were read before.
pub(in crate::cli) fn manifest_trackers(
    config: &RenderConfig,
    manifests: Manifests,
) -> PerFamily<Tracker> {
    let (changes, other_nodes) = changes_of(manifests, &config.node_name);
    track(config, changes, &other_nodes)
}

fn track(
    config: &RenderConfig,
    changes: ObjectChanges,
    other_nodes: &OtherNodes,
) -> PerFamily<Tracker> {
    let trackers = changes.map(|family, changes| {
        let external_ips = config.environment.get(family).fixed.external_ips;
        let mut tracker = Tracker::new(SystemTime::UNIX_EPOCH).with_external_ips(external_ips);
        for change in changes {
            tracker.apply(change);
        }
        tracker
    });
    for warning in missing::warnings(&trackers, &config.node_name, other_nodes) {
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
    let environment = config.environment.get(family);
    let addresses = if environment.needs_node_addresses() {
        local_addresses()?.into_iter().collect()
    } else {
        Vec::new()
    };
    Ok(environment.options(tracker.node(), &addresses))
}

fn node_addresses(trackers: &PerFamily<Tracker>) -> BTreeSet<IpAddr> {
    let nodes = trackers.as_ref().into_pairs().into_iter();
    let nodes = nodes.filter_map(|(_, tracker)| tracker.node());
    nodes
        .flat_map(|node| node.addresses.iter().copied())
        .collect()
}

fn changes(config: &RenderConfig) -> anyhow::Result<(ObjectChanges, OtherNodes)> {
    let node_name: Arc<str> = config.node_name.as_str().into();
    match &config.source {
        Source::Manifests {
            path,
            ranges,
            validation,
        } => {
            let options = ManifestOptions {
                node_name,
                ranges: *ranges,
            };
            let manifests = manifests::load(path, &options, *validation)?;
            exit::report(&manifests.errors);
            warn_of_load_balancers(&manifests, ranges);
            Ok(changes_of(manifests, &config.node_name))
        }
        Source::Cluster(options) => {
            let (senders, receivers) = change_channels(None);
            let mut ingester = Ingester::once(senders, Arc::clone(&node_name));
            list(options, &node_name, &mut ingester)?;
            Ok((taken(receivers), OtherNodes::Unknown))
        }
    }
}

/// Warns of load balancer IPs that no controller has reported. Cluster IPs and node ports need no
/// warning: the daemon derives the same ones from manifests.
fn warn_of_load_balancers(manifests: &Manifests, ranges: &ManifestRanges) {
    let mut assumed = manifests.assumptions.clone();
    assumed.retain(|one| one.kind == AssumedValue::LoadBalancerIp);
    for line in manifests::assumption_lines(&assumed, ranges) {
        tracing::warn!("assumed, as the manifests do not have them: {line}");
    }
}

fn changes_of(manifests: Manifests, node_name: &str) -> (ObjectChanges, OtherNodes) {
    let (senders, receivers) = change_channels(None);
    let mut ingester = Ingester::once(senders, node_name.into());
    for note in &manifests.notes {
        tracing::warn!("{note}");
    }
    manifests.send(&mut ingester);
    (taken(receivers), OtherNodes::Named(manifests.other_nodes))
}

fn taken(receivers: ChangeReceivers) -> ObjectChanges {
    receivers.families.map(|_, mut changes| changes.take())
}

/// Deadline for listing all objects of an API server.
const LIST_DEADLINE: Duration = Duration::from_secs(60);

/// Lists the objects that a proxy on this node watches.
fn list(options: &ApiOptions, node: &str, ingester: &mut Ingester) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let snapshot = runtime.block_on(async {
        let server = api::build_client(options).await.map_err(connect_error)?;
        let listed = api::snapshot(&server, node, LIST_DEADLINE).await;
        listed.map_err(|error| list_error(&error, server.address()))
    })?;
    let set_services = snapshot.services.objects.iter().map(Observed::Set);
    set_services.for_each(|service| ingester.service(service));
    snapshot
        .slices
        .objects
        .iter()
        .for_each(|slice| ingester.endpoint_slice(Observed::Set(slice)));
    snapshot
        .nodes
        .objects
        .iter()
        .for_each(|node| ingester.node(Observed::Set(node)));
    Ok(())
}

/// Converts an error of connecting. The default of a Pod's service account was not chosen by the
/// user, so its failure is a missing flag.
fn connect_error(error: ClientConfigError) -> anyhow::Error {
    match error {
        ClientConfigError::InCluster(_) => Unusable::without_source().into(),
        other => other.into(),
    }
}

/// Converts an error of listing: names the server and what to do.
fn list_error(error: &ApiError, address: &str) -> anyhow::Error {
    let server = format!("the API server `{address}`");
    match error {
        ApiError::Connection(cause) => connection_error(&server, &**cause),
        ApiError::Status { code: 401, .. } => anyhow::anyhow!(
            "{server}: {error}\n\
             hint: check that the credentials of the kubeconfig are of this cluster and not expired"
        ),
        ApiError::Status { code: 403, .. } => anyhow::anyhow!(
            "{server}: {error}\n\
             hint: allow the user to list Services, EndpointSlices and Nodes"
        ),
        ApiError::Status { code: 404, .. } | ApiError::ProtocolError(_) => anyhow::anyhow!(
            "{server}: {}\n\
             hint: check that --kubeconfig or --master names an API server",
            error.in_full()
        ),
        other => anyhow::anyhow!("{server}: {}", other.in_full()),
    }
}

/// Converts an error of a request without a response.
fn connection_error(server: &str, cause: &(dyn Error + 'static)) -> anyhow::Error {
    match ConnectFailure::find(cause) {
        Some(failure @ ConnectFailure::CredentialPlugin(_)) => anyhow::anyhow!(
            "{server}: {failure}\n\
             hint: run the command of `users[].user.exec` of the kubeconfig by itself"
        ),
        Some(failure @ ConnectFailure::Certificate(_)) => anyhow::anyhow!(
            "{server}: {failure}\n\
             hint: check that the certificate authority of the kubeconfig is that of this cluster"
        ),
        None => anyhow::anyhow!(
            "{server} did not answer: {}\n\
             hint: check that it is up, and that --kubeconfig or --master names the right one",
            first_cause(cause)
        ),
    }
}

/// Returns the innermost cause; the errors around it only name libraries.
fn first_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    error.source().map_or(error, first_cause)
}
