//! Pods of proxies, and streams to them through the API server: port-forward and exec, which need
//! connections that can be upgraded ([`ApiOptions::is_http1`](super::ApiOptions::is_http1)).

use std::pin::Pin;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::AttachParams;
use prost::Message;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, DuplexStream};

use super::client::ApiClient;
use super::error::ApiError;
use super::list::list;
use super::resource::{Resource, Selector, resource};
use crate::ingest::{Metadata, ObjectName};
use crate::telemetry::with_causes;

/// Port of the metrics server, if the Pod does not declare another one.
const METRICS_PORT: u16 = 10249;
const SHADOW_METRICS_PORT: u16 = 10349;

/// Pod, trimmed.
///
/// Upstream: k8s.io/api/core/v1/generated.proto, `Pod` (v1.37)
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct PodObject {
    #[prost(message, required, tag = 1)]
    pub metadata: Metadata,
    #[prost(message, required, tag = 2)]
    spec: PodSpec,
    #[prost(message, required, tag = 3)]
    status: PodStatus,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    #[prost(message, repeated, tag = 2)]
    containers: Vec<Container>,
    #[prost(string, tag = 10)]
    node_name: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
struct Container {
    #[prost(string, tag = 1)]
    name: String,
    #[prost(string, tag = 2)]
    image: String,
    #[prost(string, repeated, tag = 3)]
    command: Vec<String>,
    #[prost(message, repeated, tag = 6)]
    ports: Vec<ContainerPort>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerPort {
    #[prost(string, tag = 1)]
    name: String,
    #[prost(int32, tag = 3)]
    container_port: i32,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
struct PodStatus {
    #[prost(string, tag = 1)]
    phase: String,
}

resource!(PodObject, Pod, true);

/// Pod of a proxy on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxyPod {
    pub name: ObjectName,
    pub node: String,
    pub program: ProxyProgram,
    /// Phase of its life; only containers of a running one can be reached.
    pub phase: String,
}

/// Program of a proxy's Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProxyProgram {
    Deltaproxy {
        metrics_port: u16,
    },
    /// Container that has the iptables binaries.
    KubeProxy {
        container: String,
    },
}

impl ProxyPod {
    /// Reports whether its containers run, as far as the API server knows.
    pub(crate) fn is_running(&self) -> bool {
        self.phase == "Running"
    }

    /// Lists the Pods of a role that are scheduled: of one node, or of all. Of several Pods on a
    /// node, such as during an update, the one to ask comes first: one that runs, and of
    /// deltaproxy.
    pub(crate) async fn list(
        server: &ApiClient,
        role: PodRole,
        node: Option<&str>,
    ) -> Result<Vec<Self>, ApiError> {
        let listed = list(server, &Selector::of_role(role, node)).await?;
        let mut pods: Vec<Self> = listed.objects.into_iter().map(Into::into).collect();
        pods.retain(|pod| !pod.node.is_empty());
        pods.sort_by_key(|pod| {
            let is_kube_proxy = matches!(pod.program, ProxyProgram::KubeProxy { .. });
            let name = pod.name.clone();
            (pod.node.clone(), !pod.is_running(), is_kube_proxy, name)
        });
        Ok(pods)
    }
}

impl From<PodObject> for ProxyPod {
    fn from(pod: PodObject) -> Self {
        let PodSpec {
            containers,
            node_name,
        } = pod.spec;
        let label = pod.metadata.label(LABEL);
        // In place of kubeadm's DaemonSet, it has the label of kube-proxy.
        let is_deltaproxy = matches!(label.as_deref(), Some(DELTAPROXY | SHADOW))
            || containers.iter().any(Container::is_of_deltaproxy);
        let program = if is_deltaproxy {
            let mut ports = containers.iter().flat_map(|container| &container.ports);
            let declared = ports.find(|port| port.name == "metrics");
            let declared = declared.and_then(|port| u16::try_from(port.container_port).ok());
            ProxyProgram::Deltaproxy {
                metrics_port: declared.unwrap_or(if label.as_deref() == Some(SHADOW) {
                    SHADOW_METRICS_PORT
                } else {
                    METRICS_PORT
                }),
            }
        } else {
            let is_named = |container: &&Container| container.name == KUBE_PROXY;
            let container = containers.iter().find(is_named).or(containers.first());
            ProxyProgram::KubeProxy {
                container: container.map_or_else(String::new, |container| container.name.clone()),
            }
        };
        Self {
            name: pod.metadata.object_name(),
            node: node_name,
            program,
            phase: pod.status.phase,
        }
    }
}

impl Container {
    fn is_of_deltaproxy(&self) -> bool {
        let program = self.command.first().map_or("", String::as_str);
        let mut paths = [self.image.as_str(), program].into_iter();
        paths.any(|path| {
            // A registry may have a port; tag and digest follow the last name.
            let name = path.rsplit('/').next().unwrap_or_default();
            name.split([':', '@']).next() == Some(DELTAPROXY)
        })
    }
}

/// Label of proxies' Pods, and its values.
const LABEL: &str = "k8s-app";
const DELTAPROXY: &str = "deltaproxy";
const KUBE_PROXY: &str = "kube-proxy";
const SHADOW: &str = "deltaproxy-shadow";

/// Pods that a command asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodRole {
    /// Those that write rules.
    Proxy,
    /// Those of shadow mode, next to these.
    Shadow,
}

impl PodRole {
    /// Returns the selector of their labels.
    pub(crate) fn selector(self) -> String {
        match self {
            Self::Proxy => format!("{LABEL} in ({DELTAPROXY},{KUBE_PROXY})"),
            Self::Shadow => format!("{LABEL}={SHADOW}"),
        }
    }
}

impl Selector<PodObject> {
    /// Selects the Pods of a role: of one node, or of all.
    fn of_role(role: PodRole, node: Option<&str>) -> Self {
        let fields = node.map(|node| format!("spec.nodeName={node}"));
        Self::new(Some(&role.selector()), fields.as_deref())
    }
}

/// Failure of a stream to a Pod.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The API server did not open it.
    #[error(transparent)]
    Api(ApiError),
    /// The node ended it, or the program in the Pod failed.
    #[error("{0}")]
    Pod(String),
}

impl From<kube::Error> for StreamError {
    fn from(error: kube::Error) -> Self {
        Self::Api(match error {
            kube::Error::Api(status) => ApiError::Status {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
                retry_after: None,
            },
            kube::Error::Service(cause) => ApiError::Connection(cause),
            other => ApiError::Connection(other.into()),
        })
    }
}

/// Connection to a port of a Pod.
pub(crate) struct ForwardedPort {
    /// Bytes of the connection.
    pub stream: DuplexStream,
    /// Why the node ended it; `None` if it gave no reason.
    pub error: Pin<Box<dyn Future<Output = Option<String>> + Send>>,
}

/// Connects to a port on loopback of a Pod, which for a Pod in the network of its node is that of
/// the node.
pub(crate) async fn port_forward(
    server: &ApiClient,
    pod: &ObjectName,
    port: u16,
) -> Result<ForwardedPort, StreamError> {
    let mut forwarder = api(server, pod).portforward(&pod.name, &[port]).await?;
    let none = || StreamError::Pod("the port was not forwarded".to_owned());
    let stream = forwarder.take_stream(port).ok_or_else(none)?;
    let error = forwarder.take_error(port).ok_or_else(none)?;
    let error = async {
        match error.await {
            Some(error) => Some(error),
            None => forwarder
                .join()
                .await
                .err()
                .map(|error| with_causes(&error)),
        }
    };
    Ok(ForwardedPort {
        stream,
        error: Box::pin(error),
    })
}

/// Maximum bytes of an error that are read.
const MAX_ERROR_BYTES: u64 = 4096;

/// Size of the pieces in which output is received.
const OUTPUT_PIECE: usize = 64 * 1024;

/// Runs a command in a container, and returns what it prints: at most `most` bytes.
pub(crate) async fn exec(
    server: &ApiClient,
    (pod, container): (&ObjectName, &str),
    command: &[&str],
    most: u64,
) -> Result<String, StreamError> {
    let params = AttachParams::default()
        .container(container)
        .stdin(false)
        .max_stdout_buf_size(OUTPUT_PIECE);
    let mut process = api(server, pod)
        .exec(&pod.name, command.iter().copied(), &params)
        .await?;
    let (stdout, stderr, status) = (process.stdout(), process.stderr(), process.take_status());
    let (output, complaint) = tokio::join!(text(stdout, most), text(stderr, MAX_ERROR_BYTES));
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    let failed = |problem: String| {
        let command = command.join(" ");
        StreamError::Pod(format!("`{command}` failed: {problem}"))
    };
    match status {
        Some(Status { status, .. }) if status.as_deref() == Some("Success") => {
            output.map_err(failed)
        }
        status => Err(failed(match (complaint, status) {
            (Ok(complaint), _) if !complaint.trim().is_empty() => complaint.trim().to_owned(),
            (_, Some(status)) => status.message.unwrap_or_default(),
            (_, None) => "the connection ended before the command".to_owned(),
        })),
    }
}

/// Reads a stream to its end.
async fn text(stream: Option<impl AsyncRead + Unpin>, most: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let mut limited = stream.take(most + 1);
        let read = limited.read_to_end(&mut bytes).await;
        read.map_err(|error| error.to_string())?;
    }
    if bytes.len() as u64 > most {
        return Err("its output is too large".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "its output is not text".to_owned())
}

fn api(server: &ApiClient, pod: &ObjectName) -> Api<Pod> {
    Api::namespaced(server.client.clone(), &pod.namespace)
}

#[cfg(test)]
#[path = "tests/pods.rs"]
mod tests;
