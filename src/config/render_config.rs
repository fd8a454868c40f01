//! Resolution of the settings that rules depend on: source of objects, node and render options.
//!
//! Kept separate from [`resolve`](super::resolve) because the commands that only render share this
//! part with the daemon.

use std::path::PathBuf;

use super::feature_gates::{self, EXTERNAL_IPS};
use super::flags::{RulesArgs, SourceArgs};
use super::kube_proxy::{ClientConnection, KubeProxyConfiguration};
use super::problems::ConfigProblems;
#[cfg(feature = "tools")]
use super::tool_flags::{ContextArgs, RequestArgs};
use super::validate;
use crate::host::BackendChoice;
use crate::model::ExternalIps;
use crate::net::{IpFamily, PerFamily};
use crate::render::Options;
use crate::render::RenderSettings;
use crate::rules::Backend;
use crate::watch::api::{ApiOptions, Encoding, RateLimit};
use crate::watch::manifests::{ManifestOptions, Validation};

/// Source of Services, EndpointSlices and the Node.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// API server. Without kubeconfig and address, that of the Pod's service account.
    Cluster(ApiOptions),
    /// Manifests in files.
    Manifests {
        /// File, folder or `-` for stdin.
        path: PathBuf,
        /// Commands assume load balancer IPs.
        assumes_load_balancer_ips: bool,
        /// Treatment of invalid objects by commands: `--lenient`.
        validation: Validation,
    },
}

/// Settings that rules depend on, for every command that renders.
#[derive(Debug, Clone)]
pub struct RenderConfig {
    pub source: Source,
    /// Name of this node in lower case.
    pub node_name: String,
    /// Settings from which each family's render options are derived, once the Node is known.
    pub render_settings: PerFamily<RenderSettings>,
    /// Variant of the iptables binaries.
    pub backend: BackendChoice,
}

impl RenderConfig {
    /// Returns the settings for reading manifests.
    pub(crate) fn manifest_options(&self) -> ManifestOptions {
        ManifestOptions {
            node_name: self.node_name.as_str().into(),
            assumes_load_balancer_ips: matches!(
                self.source,
                Source::Manifests {
                    assumes_load_balancer_ips: true,
                    ..
                }
            ),
        }
    }

    /// Adds the settings of a source that only commands have.
    #[cfg(feature = "tools")]
    #[must_use]
    pub(crate) fn read_once(mut self, args: &RequestArgs) -> Self {
        if let Source::Manifests {
            assumes_load_balancer_ips,
            ..
        } = &mut self.source
        {
            *assumes_load_balancer_ips = true;
        }
        self.with_request_timeout(args)
    }

    /// Selects the cluster as kubectl does: by a context, and without a flag by the kubeconfigs of
    /// the user.
    #[cfg(feature = "tools")]
    #[must_use]
    pub(crate) fn with_context(
        mut self,
        args: &ContextArgs,
        kubeconfigs: impl FnOnce() -> Vec<PathBuf>,
    ) -> Self {
        if let Source::Cluster(options) = &mut self.source {
            options.context = args.choice();
            if options.kubeconfigs.is_empty() && options.master.is_none() {
                options.kubeconfigs = kubeconfigs();
            }
        }
        self
    }

    /// Limits the time to list the objects of a cluster.
    #[cfg(feature = "tools")]
    #[must_use]
    pub(crate) fn with_request_timeout(mut self, args: &RequestArgs) -> Self {
        if let Source::Cluster(options) = &mut self.source {
            options.list_timeout = args.limit();
        }
        self
    }
}

/// Resolves the settings that rules depend on; `None` if a problem was recorded.
pub(super) fn render_config(
    configuration: &KubeProxyConfiguration,
    (source, rules): (&SourceArgs, &RulesArgs),
    host_name: &str,
    problems: &mut ConfigProblems,
) -> Option<RenderConfig> {
    validate::mode(configuration, problems);
    feature_gates::check(&configuration.feature_gates, problems);
    validate::burst(configuration, problems);
    let local_mode = validate::local_mode(configuration, problems);
    let node_ports = validate::node_ports(configuration, problems);
    let bind_address = validate::bind_address(configuration, problems);
    let bit = validate::masquerade_bit(configuration, problems);
    let tree_thresholds = validate::service_dispatch(configuration, problems);
    let node_name = node_name(source, configuration, host_name, problems);
    let backend = rules.backend();
    let (local_mode, node_ports) = (local_mode?, node_ports?);
    let (bind_address, bit, tree_thresholds) = (bind_address?, bit?, tree_thresholds?);
    Some(RenderConfig {
        source: objects(source, configuration),
        node_name: node_name?,
        render_settings: PerFamily::from_fn(|family| RenderSettings {
            fixed: Options {
                tree_thresholds,
                ..fixed_options(configuration, bit, backend, family)
            },
            local_mode: local_mode.clone(),
            node_port_addresses: node_ports.clone(),
            // As upstream, an unspecified address leaves the choice to the Node.
            bind_address: Some(bind_address).filter(|ip| !ip.is_unspecified()),
        }),
        backend,
    })
}

fn fixed_options(
    configuration: &KubeProxyConfiguration,
    bit: u8,
    backend: BackendChoice,
    family: IpFamily,
) -> Options {
    let mut options = Options::defaults(family);
    options.masquerade.bit = bit;
    options.masquerade.is_for_all = configuration.iptables.masquerade_all;
    if configuration.iptables.localhost_node_ports == Some(false) {
        options.has_localhost_node_ports = false;
    }
    if configuration.feature_gates.get(EXTERNAL_IPS) == Some(&false) {
        options.external_ips = ExternalIps::Ignored;
    }
    if backend == BackendChoice::Nft {
        options.backend = Backend::Nft;
    }
    options
}

fn objects(args: &SourceArgs, configuration: &KubeProxyConfiguration) -> Source {
    let Some(path) = args.manifests.clone() else {
        let client = &configuration.client_connection;
        let kubeconfig = &client.kubeconfig;
        let master = args.flags.get("master");
        return Source::Cluster(ApiOptions {
            kubeconfigs: Some(kubeconfig.into())
                .filter(|_| !kubeconfig.is_empty())
                .into_iter()
                .collect(),
            master: master.filter(|master: &String| !master.is_empty()),
            encoding: encoding(client),
            rate_limit: rate_limit(client),
            ..ApiOptions::default()
        });
    };
    Source::Manifests {
        path,
        assumes_load_balancer_ips: false,
        validation: if args.flags.is_given("lenient") {
            Validation::Lenient
        } else {
            Validation::Strict
        },
    }
}

/// Returns the encoding of API responses: the accepted content types, or the content type of
/// requests if there are none.
///
/// Upstream: k8s.io/client-go/rest/request.go, `NewRequest` (v1.37)
fn encoding(client: &ClientConnection) -> Encoding {
    Encoding::preferred(match client.accept_content_types.as_str() {
        "" => &client.content_type,
        accepted => accepted,
    })
}

/// Returns the rate limit of API requests. Zero, which is only possible in a flag, means the
/// default, and a negative rate no limit.
///
/// Upstream: k8s.io/client-go/rest/config.go, `RESTClientForConfigAndClient` (v1.37)
fn rate_limit(client: &ClientConnection) -> RateLimit {
    let defaults = RateLimit::default();
    RateLimit {
        qps: Some(client.qps)
            .filter(|qps| *qps != 0.0)
            .unwrap_or(defaults.qps),
        burst: u32::try_from(client.burst)
            .ok()
            .filter(|burst| *burst != 0)
            .unwrap_or(defaults.burst),
    }
}

fn node_name(
    args: &SourceArgs,
    configuration: &KubeProxyConfiguration,
    host_name: &str,
    problems: &mut ConfigProblems,
) -> Option<String> {
    let name = match configuration.hostname_override.as_str() {
        "" => host_name,
        chosen => chosen,
    };
    let name = name.trim().to_lowercase();
    if !name.is_empty() {
        return Some(name);
    }
    let problem = "node name must not be empty";
    if args.flags.is_given("hostname-override") {
        problems.add_flag("hostname-override", problem);
    } else {
        problems.add("hostnameOverride", problem);
    }
    None
}
