//! Objects of manifests or a cluster, read once.
//!
//! The daemon waits for missing objects; a command reads its input once, takes it as complete, and
//! warns of what it lacks. Failures become errors that say what to do.

use std::error::Error;
use std::time::SystemTime;

use super::rules::ServiceTypes;
use crate::app::connect_error;
use crate::cli::exit::ErrorReport;
use crate::cli::runtime::runtime;
use crate::cli::terminal::{Progress, escaped};
use crate::config::{RenderConfig, Source, environment};
use crate::ingest::ServiceObject;
use crate::inspect::catalog::NamePattern;
use crate::model::{Endpoint, NodeHint, Service, ServiceState, Services, TrafficPolicy};
use crate::net::PerFamily;
use crate::text::first_of;
use crate::tracker::Tracker;
use crate::watch::api::{
    self, ApiClient, ApiError, ApiOptions, ConnectFailure, ObjectDecodeError, Selector, is_not_http,
};
use crate::watch::manifests::{self, AssumedValueKind, Manifests};
use crate::watch::{ChangeReceivers, Ingester, SourceEvent, change_channels};

/// Reads all objects, and the types of the Services; warns of objects that are missing.
///
/// # Errors
///
/// A source cannot be read. Without a report, also any error of manifests.
pub(in crate::cli) fn read(
    config: &RenderConfig,
    report: Option<&ErrorReport>,
) -> anyhow::Result<(PerFamily<Tracker>, ServiceTypes)> {
    match &config.source {
        Source::Manifests {
            path, validation, ..
        } => {
            let progress = Progress::start("reading manifests");
            let options = config.manifest_options();
            let manifests = match report {
                Some(_) => manifests::load(path, &options, *validation)?,
                None => manifests::load_complete(path, &options, *validation)?,
            };
            drop(progress);
            if let Some(report) = report {
                report.print(&manifests.errors);
            }
            warn_of_load_balancers(&manifests);
            warn_of_missing_addresses(&manifests);
            let types = ServiceTypes::read(manifests.services.iter().map(|one| &**one));
            Ok((manifest_trackers(config, &manifests), types))
        }
        Source::Cluster(options) => {
            let (senders, receivers) = change_channels(None);
            let mut ingester = Ingester::for_command(senders, config.node_name.as_str().into());
            let types = list(options, &config.node_name, &mut ingester)?;
            Ok((track(config, receivers, None), types))
        }
    }
}

/// Returns trackers with all objects of manifests that were read before.
pub(in crate::cli) fn manifest_trackers(
    config: &RenderConfig,
    manifests: &Manifests,
) -> PerFamily<Tracker> {
    let (senders, receivers) = change_channels(None);
    let mut ingester = Ingester::for_command(senders, config.node_name.as_str().into());
    for note in &manifests.notes {
        tracing::warn!("{}", escaped(note));
    }
    manifests.send(&mut ingester);
    track(config, receivers, Some(&manifests.other_nodes))
}

/// Applies all changes. `other_nodes` are the Nodes besides this one, sorted; `None` if only this
/// one was listed.
fn track(
    config: &RenderConfig,
    receivers: ChangeReceivers,
    other_nodes: Option<&[Box<str>]>,
) -> PerFamily<Tracker> {
    let trackers = receivers.families.map(|family, mut changes| {
        let external_ips = config.render_settings.get(family).fixed.external_ips;
        let mut tracker = Tracker::new(SystemTime::UNIX_EPOCH).with_external_ips(external_ips);
        for change in changes.take() {
            tracker.apply(change);
        }
        tracker
    });
    for warning in warnings(&trackers, &config.node_name, other_nodes) {
        tracing::warn!("{warning}");
    }
    trackers
}

/// Warns of load balancer IPs that no controller has reported. Cluster IPs and node ports need no
/// warning: the daemon derives the same ones from manifests.
fn warn_of_load_balancers(manifests: &Manifests) {
    let mut assumed = manifests.assumptions.clone();
    assumed.retain(|one| one.kind == AssumedValueKind::LoadBalancerIp);
    for line in manifests::assumption_lines(&assumed) {
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

/// Lists the objects that a proxy on this node watches. Returns the types of the Services.
fn list(options: &ApiOptions, node: &str, ingester: &mut Ingester) -> anyhow::Result<ServiceTypes> {
    let snapshot = ask(options, async |server| {
        api::snapshot(server, node, options.list_timeout).await
    })?;
    let (services, slices, nodes) = (&snapshot.services, &snapshot.slices, &snapshot.nodes);
    for problems in [
        &services.undecodable,
        &slices.undecodable,
        &nodes.undecodable,
    ] {
        warn_of_undecodable(problems);
    }
    for service in &services.objects {
        ingester.service(SourceEvent::Set(service));
    }
    for slice in &slices.objects {
        ingester.endpoint_slice(SourceEvent::Set(slice));
    }
    for node in &nodes.objects {
        ingester.node(SourceEvent::Set(node));
    }
    Ok(ServiceTypes::read(&snapshot.services.objects))
}

fn warn_of_undecodable(problems: &[ObjectDecodeError]) {
    if let Some(text) = undecodable(problems) {
        tracing::warn!("{text}");
    }
}

/// Returns the warning of objects of one kind that are left out.
fn undecodable(problems: &[ObjectDecodeError]) -> Option<String> {
    let first = problems.first()?;
    let (name, cause) = (first.name.to_string(), first.source.to_string());
    Some(format!(
        "objects of the API server that cannot be decoded and are left out: {}, such as `{}`: {}",
        problems.len(),
        escaped(&name),
        escaped(&cause)
    ))
}

/// Returns the names of the Services with these labels that rules may be for.
///
/// # Errors
///
/// The API server does not list them, or there are none.
pub(in crate::cli) fn names_with_labels(
    options: &ApiOptions,
    labels: &str,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<NamePattern>> {
    let selector = Selector::services_with(labels);
    let listed = ask(options, async |server| {
        api::within(options.list_timeout, api::list(server, &selector)).await
    })?;
    warn_of_undecodable(&listed.undecodable);
    let is_selected = |service: &&ServiceObject| {
        let is_in = namespace.is_none_or(|namespace| service.metadata.namespace == namespace);
        is_in && service.spec.type_ != "ExternalName"
    };
    let services = listed.objects.iter().filter(is_selected);
    let names = services.map(|service| NamePattern {
        namespace: Some(service.metadata.namespace.as_str().into()),
        service: service.metadata.name.as_str().into(),
        port: None,
        protocol: None,
        is_dns: false,
    });
    let names: Vec<NamePattern> = names.collect();
    anyhow::ensure!(
        !names.is_empty(),
        "no Service with rules has the labels `{labels}`{}",
        namespace.map_or_else(String::new, |name| format!(" in namespace `{name}`"))
    );
    Ok(names)
}

/// Connects to the API server, and asks it.
pub(in crate::cli) fn ask<T>(
    options: &ApiOptions,
    question: impl AsyncFnOnce(&ApiClient) -> Result<T, ApiError>,
) -> anyhow::Result<T> {
    runtime()?.block_on(async {
        // A credential plugin may ask for a password, or hang.
        let progress = Progress::waiting_for("waiting for credentials of the API server");
        let server = api::build_client(options, &environment::proxies())
            .await
            .map_err(connect_error)?;
        drop(progress);
        let _progress = Progress::waiting_for(waiting_text(options, server.address()));
        let answer = question(&server).await;
        answer.map_err(|error| list_error(&error, server.address()))
    })
}

fn waiting_text(options: &ApiOptions, address: &str) -> String {
    let limit = match options.list_timeout {
        Some(limit) => format!("at most {} s", limit.as_secs_f64()),
        None => "without a limit".to_owned(),
    };
    let address = escaped(address);
    format!("waiting for the API server `{address}`, {limit} (--request-timeout)")
}

/// Converts an error of listing: names the server and what to do.
pub(in crate::cli) fn list_error(error: &ApiError, address: &str) -> anyhow::Error {
    let is_plain = address.starts_with("http:");
    let (problem, hint) = match error {
        ApiError::Connection(cause) if is_plain && is_not_http(&**cause) => {
            let cause = first_cause(&**cause);
            (format!(" did not answer in HTTP: {cause}"), USE_HTTPS)
        }
        ApiError::Connection(cause) => match ConnectFailure::find(&**cause) {
            Some(failure) => (format!(": {failure}"), connect_hint(&failure)),
            None => (
                format!(" did not answer: {}", first_cause(&**cause)),
                "check that it is up, and that --kubeconfig or --master names the right one",
            ),
        },
        error => (
            format!(": {}", error.in_full()),
            status_hint(error, is_plain),
        ),
    };
    let hint = match hint {
        "" => String::new(),
        hint => format!("\nhint: {hint}"),
    };
    anyhow::anyhow!("the API server `{address}`{problem}{hint}")
}

/// Hint for an address without TLS whose server expects it.
const USE_HTTPS: &str = "use https:// in the address, unless the server has no TLS";

/// Returns what to do about a response, or a missing one; empty if nothing is known.
const fn status_hint(error: &ApiError, is_plain: bool) -> &'static str {
    match error {
        ApiError::Status { code: 400, .. } if is_plain => USE_HTTPS,
        ApiError::Status { code: 401, .. } => {
            "check that the credentials of the kubeconfig are of this cluster and not expired"
        }
        ApiError::Status { code: 403, .. } => {
            "allow the user to list Services, EndpointSlices and Nodes"
        }
        ApiError::Status { code: 404, .. } | ApiError::ProtocolError(_) => {
            "check that --kubeconfig or --master names an API server"
        }
        ApiError::DeadlineExceeded(_) | ApiError::TimedOut(_) => {
            "check that it is up and reachable from here, or set a longer --request-timeout"
        }
        _ => "",
    }
}

/// Returns what to do about a request without a response.
fn connect_hint(failure: &ConnectFailure) -> &'static str {
    match failure {
        ConnectFailure::CredentialPlugin(_) => {
            "run the command of `users[].user.exec` of the kubeconfig by itself"
        }
        ConnectFailure::Certificate(_) => {
            "check that the certificate authority of the kubeconfig is that of this cluster"
        }
        ConnectFailure::NotTls(_) => {
            "use http:// in the address if the server has no TLS, or the port of the API server"
        }
        ConnectFailure::Proxy(_) => {
            "check `proxy-url` of the kubeconfig, or HTTPS_PROXY, HTTP_PROXY and NO_PROXY; the \
             certificate authority of the kubeconfig is for the proxy as well"
        }
    }
}

/// Returns the innermost cause; the errors around it only name libraries.
fn first_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    error.source().map_or(error, first_cause)
}

/// Maximum names in a warning.
const MAX_NAMES: usize = 3;

/// Returns warnings of missing objects, each with its hint.
fn warnings(
    trackers: &PerFamily<Tracker>,
    node_name: &str,
    other_nodes: Option<&[Box<str>]>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let has_slices = states(trackers).any(|state| !state.slices.is_empty());
    if !has_slices && states(trackers).any(|state| state.service.is_some()) {
        warnings.push(
            "no EndpointSlices in the input: every Service is treated as without endpoints\n\
             hint: include them: kubectl get services,endpointslices,nodes -A -o yaml"
                .to_owned(),
        );
    }
    let Some(names) = other_nodes.filter(|_| trackers.v4.node().is_none()) else {
        return warnings;
    };
    if names.is_empty() {
        warnings.extend(without_nodes(trackers, node_name));
    } else {
        let shown = first_of(names.iter().map(|name| format!("`{name}`")), MAX_NAMES);
        warnings.push(format!(
            "no Node `{node_name}` in the input, only {shown}\n{NAME_HINT}"
        ));
    }
    warnings
}

/// Returns the warning of a cluster without the node.
pub(super) fn unknown_node(node_name: &str) -> String {
    format!(
        "no Node `{node_name}` in the cluster: cannot determine which endpoints are local\n{NAME_HINT}"
    )
}

const NAME_HINT: &str = "hint: set --hostname-override to the node that rules are for";

/// Returns warnings of an input without Nodes, if its rules depend on one: most do not.
fn without_nodes(trackers: &PerFamily<Tracker>, node_name: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    // Endpoints contain the names of their nodes, so a node that is named needs no Node.
    let is_named = node_name != environment::host_name().trim().to_lowercase();
    let has_local = states(trackers).flat_map(endpoints).any(|one| one.is_local);
    if !is_named && !has_local && states(trackers).any(depends_on_locality) {
        warnings.push(format!(
            "no Nodes in the input: cannot determine which endpoints are local\n{NAME_HINT}"
        ));
    }
    let mut hints = states(trackers).flat_map(endpoints);
    if hints.any(|one| !one.zone_hints.is_empty()) {
        warnings.push(
            "no Nodes in the input: the node's zone is unknown, and zone hints are ignored"
                .to_owned(),
        );
    }
    warnings
}

fn depends_on_locality(state: &ServiceState) -> bool {
    let is_local = |service: &Service| {
        [service.internal_policy, service.external_policy].contains(&TrafficPolicy::Local)
    };
    let is_hinted = |endpoint: &Endpoint| endpoint.node_hint != NodeHint::Absent;
    let mut endpoints = endpoints(state).peekable();
    let has_endpoints = endpoints.peek().is_some();
    has_endpoints && state.service.as_deref().is_some_and(is_local) || endpoints.any(is_hinted)
}

fn states(trackers: &PerFamily<Tracker>) -> impl Iterator<Item = &ServiceState> {
    let all = trackers.pairs().flat_map(|(_, tracker)| tracker.all());
    all.map(|(_, state)| state)
}

fn endpoints(state: &ServiceState) -> impl Iterator<Item = &Endpoint> {
    state.slices.iter().flat_map(|(_, slice)| &slice.endpoints)
}

#[cfg(test)]
#[path = "tests/objects.rs"]
mod tests;
