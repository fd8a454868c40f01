//! Warnings of objects that the input lacks, and explanations for Services without rules.
//!
//! The daemon waits for missing objects; a command reads its input once and takes it as complete.

use crate::cli::arguments::RuleSettings;
use crate::config::{OriginArgs, RenderConfig, Source, environment};
use crate::ingest::ServiceObject;
use crate::inspect::catalog::{NoMatch, NoMatches};
use crate::model::{Endpoint, NodeHint, Service, ServiceState, Services, TrafficPolicy};
use crate::net::PerFamily;
use crate::tracker::Tracker;
use crate::watch::manifests;

/// Nodes of the input other than the one that rules are for.
pub(super) enum OtherNodes {
    /// Nodes in manifests, sorted.
    Named(Vec<Box<str>>),
    /// Only the node itself is listed in a cluster.
    Unknown,
}

/// Maximum names in a warning.
const MAX_NAMES: usize = 3;

/// Returns warnings of missing objects, each with its hint.
pub(super) fn warnings(
    trackers: &PerFamily<Tracker>,
    node_name: &str,
    others: &OtherNodes,
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
    let OtherNodes::Named(names) = others else {
        return warnings;
    };
    if trackers.v4.node().is_some() {
        return warnings;
    }
    if names.is_empty() {
        warnings.extend(without_nodes(trackers, node_name));
    } else {
        let shown: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let shown = shown
            .into_iter()
            .take(MAX_NAMES)
            .collect::<Vec<_>>()
            .join(", ");
        let more = if names.len() > MAX_NAMES { ", ..." } else { "" };
        warnings.push(format!(
            "no Node `{node_name}` in the input, only {shown}{more}\n{NAME_HINT}"
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
    let pairs = trackers.as_ref().into_pairs().into_iter();
    pairs.flat_map(|(_, tracker)| tracker.all().map(|(_, state)| state))
}

fn endpoints(state: &ServiceState) -> impl Iterator<Item = &Endpoint> {
    state.slices.iter().flat_map(|(_, slice)| &slice.endpoints)
}

/// Service that rightly has no rules; only its object shows the reason, never the rules.
#[derive(PartialEq, Eq)]
pub(in crate::cli) struct ServiceWithoutRules {
    namespace: String,
    name: String,
    reason: &'static str,
}

/// Returns the result; replaces or extends errors of names by the reason why their Services have
/// no rules, if `objects` show it.
pub(in crate::cli) fn explained(
    found: Result<(), NoMatches>,
    objects: impl FnOnce() -> anyhow::Result<Option<Vec<ServiceWithoutRules>>>,
) -> anyhow::Result<()> {
    let Err(NoMatches(errors)) = found else {
        return Ok(());
    };
    let objects = objects()?;
    let errors = errors.iter();
    let errors: Vec<String> = errors
        .map(|error| explanation(error, objects.as_deref()))
        .collect();
    anyhow::bail!("{}", errors.join("\nerror: "))
}

/// Returns the text in place of an error of a name. `objects` are the Services without rules, if
/// they are known.
fn explanation(error: &NoMatch, objects: Option<&[ServiceWithoutRules]>) -> String {
    let NoMatch::Service {
        pattern,
        suggestions,
        ..
    } = error
    else {
        return error.to_string();
    };
    let Some(objects) = objects else {
        // An error without similar names has this hint already.
        return if suggestions.0.is_empty() {
            error.to_string()
        } else {
            format!("{error}\nhint: headless Services and those of type ExternalName have no rules")
        };
    };
    let is_named = |one: &&ServiceWithoutRules| {
        let namespace = pattern.namespace.as_deref();
        *one.name == *pattern.service && namespace.is_none_or(|own| own == one.namespace)
    };
    let lines = objects.iter().filter(is_named).map(|one| {
        let ServiceWithoutRules {
            namespace,
            name,
            reason,
        } = one;
        format!("Service `{namespace}/{name}` has no rules: {reason}")
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return error.to_string();
    }
    lines.join("\n")
}

/// Returns the Services without rules in the manifests that rules are rendered from. Manifests are
/// read again for it, because only a missing name needs them.
pub(in crate::cli) fn services_of_origin(
    args: &OriginArgs,
) -> anyhow::Result<Option<Vec<ServiceWithoutRules>>> {
    if !args.from_save.is_empty() || !args.names_objects() {
        return Ok(None);
    }
    // The file was read before; a pipe can be read only once.
    match RuleSettings::read(&args.file, &args.rules) {
        Ok(settings) => services_of_config(&settings.rendering(&args.source)?),
        Err(_) => Ok(None),
    }
}

/// Returns the Services without rules in manifests. `None`: unknown, because they are in a
/// cluster, where headless ones are not listed, or in standard input, which cannot be read again.
pub(in crate::cli) fn services_of_config(
    config: &RenderConfig,
) -> anyhow::Result<Option<Vec<ServiceWithoutRules>>> {
    let Source::Manifests {
        path,
        ranges,
        validation,
    } = &config.source
    else {
        return Ok(None);
    };
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let options = config.manifest_options(ranges);
    let manifests = manifests::load(path, &options, *validation)?;
    let headless = manifests.headless.iter();
    let headless =
        headless.map(|one| without_rules(one, "it is headless, so DNS returns its endpoints"));
    let aliases = manifests.services.iter();
    let aliases = aliases.filter(|one| one.spec.type_ == "ExternalName");
    let aliases =
        aliases.map(|one| without_rules(one, "it is of type ExternalName, so DNS returns a CNAME"));
    Ok(Some(headless.chain(aliases).collect()))
}

fn without_rules(service: &ServiceObject, reason: &'static str) -> ServiceWithoutRules {
    ServiceWithoutRules {
        namespace: service.metadata.namespace.as_str().to_owned(),
        name: service.metadata.name.as_str().to_owned(),
        reason,
    }
}
