//! Client of the nodes of a cluster, which asks one or all.

use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, StreamExt};
use tokio::time::timeout;

use crate::app::connect_error;
use crate::cli::daemon;
use crate::cli::runtime::runtime;
use crate::cli::snapshot::list_error;
use crate::cli::terminal::{Count, Progress, escaped};
use crate::config::environment;
use crate::net::IpFamily;
use crate::watch::api::{
    self, ApiClient, ApiError, ApiOptions, PodRole, ProxyPod, ProxyProgram, StreamError,
};
use crate::watch::bounded::MAX_DUMP_BYTES;

/// Maximum time for which a node is waited for.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum nodes that are asked at the same time: each has a connection to the API server, and up
/// to all rules of a node in memory.
const MAX_CONCURRENT: usize = 16;

/// Wait for the reason of a connection that the node has ended.
const REASON_TIMEOUT: Duration = Duration::from_millis(500);

pub(in crate::cli) struct Cluster {
    server: ApiClient,
    list_timeout: Option<Duration>,
    node_timeout: Duration,
}

/// Rules of a node, as its proxy gives them.
pub(in crate::cli) enum NodeAnswer {
    /// Page of deltaproxy.
    Page(String),
    /// Output of `iptables-save` and `ip6tables-save`, if another proxy runs there.
    Saved(Vec<String>),
}

/// Reason for which a node did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\nhint: {hint}")]
pub(in crate::cli) struct NodeProblem {
    /// Sentence.
    pub problem: String,
    /// Next step.
    pub hint: String,
}

impl NodeProblem {
    fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            problem: escaped(&problem.into()).into_owned(),
            hint: hint.into(),
        }
    }
}

/// Runs a command that asks nodes.
pub(in crate::cli) fn block_on<T>(
    options: ApiOptions,
    ask: impl AsyncFnOnce(&Cluster) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    runtime()?.block_on(async {
        let cluster = Cluster::new(options).await?;
        ask(&cluster).await
    })
}

impl Cluster {
    async fn new(options: ApiOptions) -> anyhow::Result<Self> {
        let options = ApiOptions {
            is_http1: true,
            ..options
        };
        let _progress = Progress::waiting_for("waiting for credentials of the API server");
        let server = api::build_client(&options, &environment::proxies()).await;
        let limit = options.list_timeout.unwrap_or(NODE_TIMEOUT);
        Ok(Self {
            server: server.map_err(connect_error)?,
            list_timeout: options.list_timeout,
            node_timeout: limit.min(NODE_TIMEOUT),
        })
    }

    /// Returns the Pods of a role to ask, sorted by node: one of each node.
    ///
    /// # Errors
    ///
    /// The API server does not list them, or there is none.
    pub(in crate::cli) async fn pods(
        &self,
        role: PodRole,
        node: Option<&str>,
    ) -> anyhow::Result<Vec<ProxyPod>> {
        let _progress =
            Progress::waiting_for("waiting for the API server to list the Pods of proxies");
        let listed = ProxyPod::list(&self.server, role, node);
        let listed = api::within(self.list_timeout, listed).await;
        let mut pods = listed.map_err(|error| match error {
            ApiError::Status { code: 403, .. } => anyhow::anyhow!(
                "the API server does not list Pods: {}\n\
                 hint: allow the user to list Pods: deploy/docs/privileges.md",
                error.in_full()
            ),
            error => list_error(&error, self.server.address()),
        })?;
        pods.dedup_by(|later, first| later.node == first.node);
        anyhow::ensure!(
            !pods.is_empty(),
            "no Pod of {}{}\n\
             hint: `kubectl get pods -A -o wide -l '{}'` lists them",
            match role {
                PodRole::Proxy => "deltaproxy or kube-proxy",
                PodRole::Shadow => "deltaproxy in shadow mode",
            },
            node.map_or_else(String::new, |node| format!(" on node `{node}`")),
            role.selector()
        );
        Ok(pods)
    }

    /// Returns the Pod to ask about a node.
    pub(in crate::cli) async fn pod(&self, node: &str) -> anyhow::Result<ProxyPod> {
        let pods = self.pods(PodRole::Proxy, Some(node)).await?;
        // There is one, or an error.
        pods.into_iter().next().context("no Pod")
    }

    pub(in crate::cli) async fn rules(&self, pod: &ProxyPod) -> Result<NodeAnswer, NodeProblem> {
        let answer = async {
            match &pod.program {
                ProxyProgram::Deltaproxy { metrics_port } => {
                    let page = self.page(pod, *metrics_port, "/rules").await?;
                    Ok(NodeAnswer::Page(page))
                }
                ProxyProgram::KubeProxy { container } => {
                    let mut saved = Vec::new();
                    for family in IpFamily::ALL {
                        saved.push(self.save(pod, container, family.save_program()).await?);
                    }
                    Ok(NodeAnswer::Saved(saved))
                }
            }
        };
        self.within_limit(pod, answer).await
    }

    /// Asks one node for a document; `None` if it runs kube-proxy, which has none.
    pub(in crate::cli) async fn document(
        &self,
        pod: &ProxyPod,
        path: &str,
    ) -> Result<Option<String>, NodeProblem> {
        let ProxyProgram::Deltaproxy { metrics_port } = pod.program else {
            return Ok(None);
        };
        let page = self.page(pod, metrics_port, path);
        self.within_limit(pod, page).await.map(Some)
    }

    /// Waits for the answer of a Pod that runs, for as long as one node is waited for.
    async fn within_limit<T>(
        &self,
        pod: &ProxyPod,
        answer: impl Future<Output = Result<T, NodeProblem>>,
    ) -> Result<T, NodeProblem> {
        if !pod.is_running() {
            let (namespace, name) = (&pod.name.namespace, &pod.name.name);
            return Err(NodeProblem::new(
                format!("Pod {} is {}", pod.name, pod.phase),
                format!("look at its events: kubectl -n {namespace} describe pod {name}"),
            ));
        }
        timeout(self.node_timeout, answer).await.map_err(|_| {
            let seconds = self.node_timeout.as_secs_f64();
            NodeProblem::new(
                format!("no answer within {seconds} s"),
                format!(
                    "check that the node is ready: kubectl get node {}",
                    pod.node
                ),
            )
        })?
    }

    async fn page(&self, pod: &ProxyPod, port: u16, path: &str) -> Result<String, NodeProblem> {
        let forwarded = api::port_forward(&self.server, &pod.name, port).await;
        let forwarded = forwarded.map_err(|error| refused(&error, pod, "portforward"))?;
        match daemon::ask(forwarded.stream, "localhost", path).await {
            Ok(page) => Ok(page),
            Err(daemon::NoPage::Busy) => Err(NodeProblem::new(
                "deltaproxy is busy, for example with a sync",
                "try again later",
            )),
            Err(error) => {
                let reason = timeout(REASON_TIMEOUT, forwarded.error).await;
                let reason = reason.ok().flatten();
                let reason = reason.filter(|reason| !reason.trim().is_empty());
                let reason = reason.unwrap_or_else(|| error.to_string());
                Err(NodeProblem::new(
                    format!(
                        "no page {path} at port {port} of Pod {}: {reason}",
                        pod.name
                    ),
                    "it is the port `metrics` of the Pod, which must be that of \
                     --metrics-bind-address; deltaproxy before 0.1.0 has no such page",
                ))
            }
        }
    }

    async fn save(
        &self,
        pod: &ProxyPod,
        container: &str,
        program: &str,
    ) -> Result<String, NodeProblem> {
        let place = (&pod.name, container);
        let saved = api::exec(&self.server, place, &[program], MAX_DUMP_BYTES).await;
        saved.map_err(|error| refused(&error, pod, "exec"))
    }
}

/// Asks for each item (a node), for at most [`MAX_CONCURRENT`] at a time, and passes on each answer
/// as it arrives.
pub(in crate::cli) async fn for_each_bounded<'i, T, A>(
    items: &'i [T],
    ask: impl AsyncFn(&'i T) -> A,
    mut answered: impl FnMut(&'i T, A),
) {
    let ask = &ask;
    let asked = items
        .iter()
        .map(|item| async move { (item, ask(item).await) });
    let mut answers = stream::iter(asked).buffer_unordered(MAX_CONCURRENT);
    let mut count = Count::start(items.len(), "nodes have answered");
    while let Some((item, answer)) = answers.next().await {
        count.add();
        answered(item, answer);
    }
}

/// Returns the problem of a stream, whose subresource is named.
fn refused(error: &StreamError, pod: &ProxyPod, subresource: &str) -> NodeProblem {
    let (namespace, name) = (&pod.name.namespace, &pod.name.name);
    let StreamError::Api(error) = error else {
        return NodeProblem::new(
            format!("{subresource} of Pod {}: {error}", pod.name),
            format!("look at the Pod: kubectl -n {namespace} describe pod {name}"),
        );
    };
    match error {
        ApiError::Status { code: 403, .. } => NodeProblem::new(
            format!(
                "the API server forbids {subresource} of Pod {}: {error}",
                pod.name
            ),
            format!(
                "allow the user to get and create pods/{subresource} in namespace {namespace}: \
                 deploy/docs/privileges.md; or, on the node, run `deltaproxy` as root"
            ),
        ),
        ApiError::Status { code: 404, .. } => NodeProblem::new(
            format!("Pod {} is gone", pod.name),
            "run the command again: its successor may be there",
        ),
        error => NodeProblem::new(
            format!("{subresource} of Pod {}: {}", pod.name, error.in_full()),
            format!(
                "check that the node is ready: kubectl get node {}",
                pod.node
            ),
        ),
    }
}

#[cfg(test)]
#[path = "tests/client.rs"]
mod tests;
