//! The cluster, as the daemon would see it: the API server, its permissions, the Node, the networks
//! of Pods, and the memory that this many Services need.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use super::report::{CheckGroup, CheckResult, NO_ANSWER};
use crate::cli::snapshot::{ask, list_error};
use crate::clock;
use crate::config::{Config, Source};
use crate::ingest::{self, EndpointSliceObject};
use crate::model::Node;
use crate::net::{IpFamily, IpNet, parse_ip};
use crate::render::LocalMode;
use crate::watch::api::{self, ApiClient, ClusterSnapshot};

const PRIVILEGES: &str = "deploy/docs/privileges.md";
const RESOURCES: &str = "deploy/docs/resources.md";
const API_SERVER: &str = "deploy/docs/api-server.md";

/// Requests of the daemon to the API server: the ClusterRole `system:node-proxier`.
const PERMISSIONS: [(&str, &str, &str); 7] = [
    ("list", "", "services"),
    ("watch", "", "services"),
    ("list", "discovery.k8s.io", "endpointslices"),
    ("watch", "discovery.k8s.io", "endpointslices"),
    ("list", "", "nodes"),
    ("watch", "", "nodes"),
    ("create", "events.k8s.io", "events"),
];

/// Difference of the clocks from which on latencies that are measured by timestamps of the cluster
/// are wrong. The header of the server is to a second.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(3);

pub(super) fn examine(config: &Config) -> CheckGroup {
    let Source::Cluster(options) = &config.rules.source else {
        let skipped =
            CheckResult::skipped("Services are read from manifests, not from a cluster", "");
        return CheckGroup::new("cluster", vec![skipped]);
    };
    let node = &config.rules.node_name;
    let asked = ask(options, async |server| {
        let limit = options.list_timeout;
        let mut checks = api::within(limit, about_server(server)).await?;
        // What may not be listed is among these checks already.
        match api::snapshot(server, node, limit).await {
            Ok(snapshot) => checks.extend(objects(&snapshot, config)),
            Err(error) => checks.push(CheckResult::error(
                &list_error(&error, server.address()),
                API_SERVER,
            )),
        }
        Ok(checks)
    });
    let checks = asked.unwrap_or_else(|error| vec![CheckResult::error(&error, API_SERVER)]);
    CheckGroup::new("cluster", checks)
}

async fn about_server(server: &ApiClient) -> Result<Vec<CheckResult>, api::ApiError> {
    let mut checks = vec![reached(server).await?];
    checks.push(clock(api::server_time(server).await?, clock::wall()));
    checks.extend(permissions(server).await?);
    Ok(checks)
}

async fn reached(server: &ApiClient) -> Result<CheckResult, api::ApiError> {
    let version = api::server_version(server).await?;
    let address = server.address();
    Ok(CheckResult::ok(format!(
        "Kubernetes {version} answers at {address}"
    )))
}

fn clock(server: Option<SystemTime>, here: SystemTime) -> CheckResult {
    let Some(server) = server else {
        return CheckResult::skipped("the API server does not say what time it is", "");
    };
    let difference = match here.duration_since(server) {
        Ok(ahead) => ahead,
        Err(behind) => behind.duration(),
    };
    if difference > CLOCK_TOLERANCE {
        return CheckResult::warning(
            format!(
                "the clocks of this node and of the API server differ by {} s: the latency of \
                 changes is measured wrong",
                difference.as_secs()
            ),
            "synchronize them, for example with chrony",
            API_SERVER,
        );
    }
    CheckResult::ok("the clock is that of the API server")
}

async fn permissions(server: &ApiClient) -> Result<Vec<CheckResult>, api::ApiError> {
    let mut missing = Vec::new();
    for (verb, group, resource) in PERMISSIONS {
        if !api::is_allowed(server, verb, group, resource).await? {
            missing.push((verb, resource));
        }
    }
    if missing.is_empty() {
        return Ok(vec![CheckResult::ok(
            "this user may list and watch Services, EndpointSlices and Nodes, and create Events",
        )]);
    }
    let checks = missing.into_iter().map(|(verb, resource)| {
        let found = format!("this user may not {verb} {resource}");
        let hint = "bind the ClusterRole system:node-proxier to it";
        if resource == "events" {
            CheckResult::warning(found, hint, PRIVILEGES)
        } else {
            CheckResult::failed(found, hint, PRIVILEGES)
        }
    });
    Ok(checks.collect())
}

fn objects(snapshot: &ClusterSnapshot, config: &Config) -> Vec<CheckResult> {
    let name = &config.rules.node_name;
    let node = snapshot.nodes.objects.first();
    let node = node.map(|object| ingest::node(object).0);
    let mut checks = vec![match &node {
        Some(_) => CheckResult::ok(format!("this node is Node `{name}`")),
        None => CheckResult::failed(
            format!("no Node has the name `{name}`: no endpoint would count as local"),
            "set --hostname-override to the name in `kubectl get nodes`",
            NO_ANSWER,
        ),
    }];
    let mode = &config.rules.render_settings.v4.local_mode;
    let local = pods_of(&snapshot.slices.objects, name, node.as_ref());
    checks.push(pod_networks(mode, node.as_ref(), &local));
    let services = snapshot.services.objects.len();
    checks.push(memory(services, available_memory()));
    checks
}

/// Returns the addresses of the endpoints on a node that are not those of the node.
fn pods_of(slices: &[EndpointSliceObject], name: &str, node: Option<&Node>) -> BTreeSet<IpAddr> {
    let node_addresses = node.map_or(&[][..], |node| &node.addresses);
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    let is_here = |node: &str| node.eq_ignore_ascii_case(name);
    endpoints
        .filter(|endpoint| endpoint.node_name.as_deref().is_some_and(is_here))
        .filter_map(|endpoint| parse_ip(endpoint.addresses.first()?))
        .filter(|address| !node_addresses.contains(address))
        .collect()
}

/// Compares the networks by which traffic of local Pods is recognized with the addresses of Pods.
fn pod_networks(mode: &LocalMode, node: Option<&Node>, pods: &BTreeSet<IpAddr>) -> CheckResult {
    let pod_cidrs = node.map_or(&[][..], |node| &node.pod_cidrs);
    let networks: &[IpNet] = match mode {
        LocalMode::ClusterCidr(networks) => networks,
        LocalMode::NodeCidr => pod_cidrs,
        LocalMode::Fixed(_) => {
            return CheckResult::ok("local Pods are recognized by their interface");
        }
    };
    if networks.is_empty() {
        return CheckResult::warning(
            "no network of Pods is known: packets from outside of the cluster to cluster IPs are \
             not masqueraded",
            "set --cluster-cidr, or --detect-local-mode=NodeCIDR",
            NO_ANSWER,
        );
    }
    let is_other = |address: &&IpAddr| {
        let mut same = networks
            .iter()
            .filter(|network| IpFamily::of_cidr(**network) == IpFamily::of(**address))
            .peekable();
        same.peek().is_some() && !same.any(|network| network.contains(*address))
    };
    let outside: Vec<&IpAddr> = pods.iter().filter(is_other).collect();
    let text: Vec<String> = networks.iter().map(ToString::to_string).collect();
    let text = text.join(", ");
    match outside.as_slice() {
        [] => CheckResult::ok(format!(
            "{} Pods of Services on this node are all in {text}",
            pods.len()
        )),
        [first, ..] => CheckResult::failed(
            format!(
                "{} of {} Pods of Services on this node, such as {first}, are outside of {text}: \
                 their packets would be masqueraded",
                outside.len(),
                pods.len()
            ),
            "compare --cluster-cidr with `kubectl get pods -A -o wide`",
            NO_ANSWER,
        ),
    }
}

/// Memory of a Pod without Services, and for each thousand of them, in MiB: the request that the
/// documentation gives, from measurements.
const BASE_MIB: u64 = 24;
const THOUSAND_MIB: u64 = 50;

const MIB: u64 = 1 << 20;

/// Compares what the daemon needs for this many Services with what there is.
fn memory(services: usize, available: Option<u64>) -> CheckResult {
    let needed = BASE_MIB + THOUSAND_MIB * services as u64 / 1000;
    let found = format!("{services} Services need {needed} MiB of memory");
    match available.map(|bytes| bytes / MIB) {
        Some(available) if available < needed => CheckResult::failed(
            format!("{found}, and {available} MiB are available"),
            "raise the memory limit of the Pod, or remove it",
            RESOURCES,
        ),
        Some(available) => {
            CheckResult::ok(format!("{found}, of {available} MiB that are available"))
        }
        None => CheckResult::ok(found),
    }
}

/// Returns the memory that a process may still use: the limit of this cgroup, or what the node has
/// available.
fn available_memory() -> Option<u64> {
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok());
    let node = fs::read_to_string("/proc/meminfo").ok();
    let node = node.as_deref().and_then(available_in);
    limit.into_iter().chain(node).min()
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
#[path = "tests/cluster.rs"]
mod tests;
