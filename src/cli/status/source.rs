//! Reads the page `/status` of the daemon on this node, or on another one.

use std::net::SocketAddr;

use crate::cli::arguments::{daemon_address, read_file};
use crate::cli::cluster;
use crate::cli::daemon::{self, NoPage};
use crate::cli::terminal::Progress;
use crate::config::{StatusArgs, environment};
use crate::status::{ConntrackStatus, Problem, StatusDocument};

/// Page of a daemon, and the document on it.
pub(in crate::cli) struct StatusPage {
    pub(super) text: String,
    pub(in crate::cli) document: StatusDocument,
}

impl StatusPage {
    /// Returns the page of the daemon at an address.
    pub(in crate::cli) fn get(address: SocketAddr) -> Result<Self, NoPage> {
        let page = Self::parse(daemon::get(address, "/status")?);
        page.map_err(|problem| NoPage::Absent(problem.to_owned()))
    }

    /// Parses the page. Each field of the document is optional; without a version, the page is
    /// that of another program.
    pub(in crate::cli) fn parse(text: String) -> Result<Self, &'static str> {
        let document: Result<StatusDocument, _> = daemon::document(&text);
        let document = document.ok().filter(|found| !found.version.is_empty());
        let document = document.ok_or("the page is not of deltaproxy")?;
        Ok(Self { text, document })
    }
}

pub(super) fn page_here(args: &StatusArgs) -> anyhow::Result<StatusPage> {
    let file = read_file(args.config.as_deref())?;
    let Some(address) = daemon_address(file.as_ref(), &args.daemon)? else {
        anyhow::bail!(
            "the metrics port of the daemon is disabled\n\
             hint: set --metrics-bind-address of `run` to an address"
        );
    };
    StatusPage::get(address).map_err(|reason| no_state(address, &reason, ConntrackStatus::read))
}

pub(super) fn page_of_node(args: &StatusArgs, node: &str) -> anyhow::Result<StatusPage> {
    let options = args.cluster.api_options(environment::kubeconfigs);
    cluster::block_on(options, async |cluster| {
        let pod = cluster.pod(node).await?;
        let _progress = Progress::waiting_for(format!("waiting for node {node}"));
        let page = cluster.document(&pod, "/status").await;
        let page = page.map_err(|problem| anyhow::anyhow!("node `{node}`: {problem}"))?;
        let Some(page) = page else {
            anyhow::bail!(
                "node `{node}` runs kube-proxy, which has no status: Pod {}\n\
                 hint: `services --node {node}` reads its rules",
                pod.name
            );
        };
        let page = StatusPage::parse(page);
        if let Ok(page) = &page
            && page.document.node != node
        {
            let name = &page.document.node;
            tracing::warn!(
                "deltaproxy on node `{node}` has the name `{name}` for it\n\
                 hint: set --hostname-override to the name in `kubectl get nodes`"
            );
        }
        page.map_err(|problem| {
            anyhow::anyhow!(
                "node `{node}`: {problem}\n\
                 hint: check the port `metrics` of Pod {}: it must be that of \
                 --metrics-bind-address",
                pod.name
            )
        })
    })
}

/// Returns the error of a daemon that does not answer. A full connection tracking table drops
/// connections to it, which time out; those to a port at which nothing listens are refused.
fn no_state(
    address: SocketAddr,
    reason: &NoPage,
    conntrack: impl FnOnce() -> Option<ConntrackStatus>,
) -> anyhow::Error {
    if let NoPage::Busy = reason
        && let Some(Problem { summary, hint, .. }) =
            conntrack().and_then(|conntrack| conntrack.problem())
    {
        return anyhow::anyhow!(
            "no state of deltaproxy at {address}: {reason}; {summary}\n\
             hint: {hint}; --node NAME asks another node"
        );
    }
    anyhow::anyhow!(
        "no state of deltaproxy at {address}: {reason}\n\
         hint: check that deltaproxy runs on this node, and not kube-proxy; if its metrics port is \
         another one, set --metrics-bind-address; --node NAME asks another node"
    )
}

#[cfg(test)]
#[path = "tests/source.rs"]
mod tests;
