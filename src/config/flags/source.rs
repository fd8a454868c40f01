//! Where Services, EndpointSlices and the Node come from.
//!
//! Every command that reads objects has these.

use std::path::PathBuf;

use clap::Args;

use super::set;
use crate::config::go;
use crate::config::kube_proxy::KubeProxyConfiguration;

/// Where Services, EndpointSlices and the Node come from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// The API server's kubeconfig; without it and --master, the Pod's service account is used
    #[arg(long, value_name = "FILE", conflicts_with = "manifests")]
    pub kubeconfig: Option<String>,
    /// The API server's address, in place of the kubeconfig's
    #[arg(long, value_name = "URL", conflicts_with = "manifests")]
    pub master: Option<String>,
    /// What the API server encodes objects as: application/vnd.kubernetes.protobuf, the default, or
    /// application/json
    #[arg(long, value_name = "TYPE")]
    pub kube_api_content_type: Option<String>,
    /// Requests to the API server per second, in the long run; negative: no limit [default: 5]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub kube_api_qps: Option<f32>,
    /// Requests to the API server at once, after a while without any [default: 10]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = go::int)]
    pub kube_api_burst: Option<i32>,
    /// Read objects from a file, a folder or `-` instead of a cluster
    #[arg(long, value_name = "PATH")]
    pub manifests: Option<PathBuf>,
    /// Where manifests' Services without a clusterIP get one from, one network for each family
    #[arg(
        long,
        value_name = "CIDR[,CIDR]",
        default_value = "10.96.0.0/12,fd00:10:96::/112"
    )]
    pub manifests_service_cidr: String,
    /// This node's name, in place of the host name; counts beside --config
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
}

impl SourceArgs {
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        let client = &mut to.client_connection;
        set(&mut client.kubeconfig, self.kubeconfig.as_ref());
        set(
            &mut client.content_type,
            self.kube_api_content_type.as_ref(),
        );
        set(&mut client.qps, self.kube_api_qps.as_ref());
        set(&mut client.burst, self.kube_api_burst.as_ref());
        self.apply_beside_file(to);
    }

    /// What counts although there is a file.
    pub(in crate::config) fn apply_beside_file(&self, to: &mut KubeProxyConfiguration) {
        let name = self.hostname_override.as_deref().unwrap_or_default();
        match name.trim() {
            // Blanks alone are no name, and are still there when that is found.
            "" if name.is_empty() => {}
            "" => name.clone_into(&mut to.hostname_override),
            trimmed => to.hostname_override = trimmed.to_lowercase(),
        }
    }
}
