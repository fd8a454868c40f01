//! Reads the page `/status` of the daemon on this node, or on another one.

use std::net::SocketAddr;

use crate::cli::arguments::{daemon_address, read_file};
use crate::cli::cluster::{self, NodeAnswer};
use crate::cli::daemon;
use crate::cli::terminal::Progress;
use crate::config::{StatusArgs, environment};
use crate::status::{ConntrackStatus, Problem, StatusDocument};
use crate::watch::api::ProxyProgram;

/// Returns the page of the daemon on this node.
pub(super) fn page_here(args: &StatusArgs) -> anyhow::Result<String> {
    let file = args.config.as_deref().map(read_file).transpose()?;
    let Some(address) = daemon_address(file.as_ref(), &args.daemon)? else {
        anyhow::bail!(
            "the metrics port of the daemon is disabled\n\
             hint: set --metrics-bind-address of `run` to an address"
        );
    };
    let page = daemon::get(address, "/status").map_err(|reason| no_state(address, &reason))?;
    read(&page).map_err(|reason| no_state(address, reason))?;
    Ok(page)
}

/// Returns the page of another node.
pub(super) fn page_of_node(args: &StatusArgs, node: &str) -> anyhow::Result<String> {
    let options = args.cluster.api_options(environment::kubeconfigs);
    cluster::block_on(options, async |cluster| {
        let pod = cluster.pod(node).await?;
        if let ProxyProgram::KubeProxy { .. } = pod.program {
            anyhow::bail!(
                "node `{node}` runs kube-proxy, which has no status: Pod {}\n\
                 hint: `services --node {node}` reads its rules",
                pod.name
            );
        }
        let _progress = Progress::start(format!("waiting for node {node}"));
        match cluster.ask(&pod, "/status").await {
            Ok(NodeAnswer::Page(page)) => Ok(page),
            Ok(NodeAnswer::Saved(_)) => anyhow::bail!("node `{node}` runs kube-proxy"),
            Err(problem) => Err(anyhow::anyhow!("node `{node}`: {problem}")),
        }
    })
}

/// Parses the page. Each field of the document is optional; without a version, the page is that of
/// another program.
pub(super) fn read(page: &str) -> Result<StatusDocument, &'static str> {
    let document: Result<StatusDocument, _> = daemon::document(page);
    let document = document.ok().filter(|found| !found.version.is_empty());
    document.ok_or("the page is not of deltaproxy")
}

/// Returns the error of a daemon that does not answer: a full connection tracking table drops
/// connections to it as well.
fn no_state(address: SocketAddr, reason: impl std::fmt::Display) -> anyhow::Error {
    if let Some(Problem { summary, hint, .. }) =
        ConntrackStatus::read().and_then(|conntrack| conntrack.problem())
    {
        return anyhow::anyhow!(
            "no state of deltaproxy at {address}: {reason}; {summary}\nhint: {hint}"
        );
    }
    anyhow::anyhow!(
        "no state of deltaproxy at {address}: {reason}\n\
         hint: check that deltaproxy runs on this node, and not kube-proxy; if its metrics port is \
         another one, set --metrics-bind-address; --node NAME asks another node"
    )
}
