//! Flags that select what a command reads: objects, the kernel's rules or a dump of them, and
//! which Services of these.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::{RulesArgs, RulesFileArgs, set};
use crate::config::go;
use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::config::problems::Unusable;
use crate::inspect::catalog::{NamePattern, PortQuery};

/// Source of Services, EndpointSlices and the Node, for every command that reads objects.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// Kubeconfig for the API server
    ///
    /// Without a source, the service account of the Pod is used.
    #[arg(long, value_name = "FILE", conflicts_with = "manifests")]
    pub kubeconfig: Option<String>,
    /// URL of the API server; overrides the kubeconfig
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "manifests",
        hide_short_help = true
    )]
    pub master: Option<String>,
    /// Content type of API responses, application/json or application/vnd.kubernetes.protobuf
    /// [default: application/vnd.kubernetes.protobuf]
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    pub kube_api_content_type: Option<String>,
    /// API requests per second; no limit if negative [default: 5]
    #[arg(
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    pub kube_api_qps: Option<f32>,
    /// API requests in a burst [default: 10]
    #[arg(
        long,
        value_name = "COUNT",
        allow_negative_numbers = true,
        value_parser = go::int,
        hide_short_help = true
    )]
    pub kube_api_burst: Option<i32>,
    /// Manifests to use instead of a cluster
    ///
    /// PATH is a file, a folder or `-` for stdin.
    #[arg(long, value_name = "PATH")]
    pub manifests: Option<PathBuf>,
    /// Networks for cluster IPs of Services without one in manifests, one CIDR for each IP family
    #[arg(
        long,
        value_name = "CIDR[,CIDR]",
        default_value = "10.96.0.0/12,fd00:10:96::/112",
        hide_short_help = true
    )]
    pub manifests_service_cidr: String,
    /// Name of this node [default: the host name]
    ///
    /// Overrides the name in the file of --config.
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
        self.apply_over_file(to);
    }

    /// Sets the fields whose flags override a configuration file.
    pub(in crate::config) fn apply_over_file(&self, to: &mut KubeProxyConfiguration) {
        let name = self.hostname_override.as_deref().unwrap_or_default();
        match name.trim() {
            // An empty flag counts as absent. A blank one is kept, so that it is reported as an
            // empty node name.
            "" if name.is_empty() => {}
            "" => name.clone_into(&mut to.hostname_override),
            trimmed => to.hostname_override = trimmed.to_lowercase(),
        }
    }
}

/// Source of the rules that a command inspects: the kernel, a dump, or objects to render.
///
/// Without a flag it is the kernel, so that these commands need no cluster.
#[derive(Debug, Clone, Args)]
pub struct OriginArgs {
    /// Dump to read instead of the kernel
    ///
    /// FILE is the output of iptables-save or ip6tables-save, or `-` for stdin. Give the flag
    /// twice for both families.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["manifests", "kubeconfig", "master"],
        help_heading = "Source"
    )]
    pub from_save: Vec<PathBuf>,
    /// Objects whose rendered rules are inspected.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Configuration file that replaces the flags of `rules`.
    #[command(flatten)]
    pub file: RulesFileArgs,
    /// Settings that decide the content of rendered rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

impl OriginArgs {
    /// Reports whether flags name objects, so that rendered rules are read instead of the
    /// kernel's.
    pub fn names_objects(&self) -> bool {
        let source = &self.source;
        source.manifests.is_some() || source.kubeconfig.is_some() || source.master.is_some()
    }
}

/// Selection of Services by name, by namespace or both.
#[derive(Debug, Clone, Args)]
pub struct SelectionArgs {
    /// Only these Services, as in web, shop/web:http or shop/dns:53/udp
    #[arg(value_name = "NAME")]
    pub names: Vec<NamePattern>,
    /// Only Services of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Services of all namespaces, as without --namespace
    #[arg(
        short = 'A',
        long,
        conflicts_with = "namespace",
        hide_short_help = true
    )]
    pub all_namespaces: bool,
}

impl SelectionArgs {
    /// Combines names and namespace.
    ///
    /// # Errors
    ///
    /// A name is qualified with another namespace than `--namespace`.
    pub fn asked(&self) -> Result<PortQuery, Unusable> {
        PortQuery::new(&self.names, self.namespace.as_deref())
            .map_err(|error| Unusable::of_flag("namespace", error.to_string()))
    }
}

/// Hidden flag with which completion scripts list names.
///
/// The script adds it to the command line that is completed, whose other flags select the rules.
#[derive(Debug, Clone, Copy, Args)]
pub struct NamesArgs {
    /// Print names only, for completion scripts
    #[arg(long = "names", value_enum, num_args = 0..=1, require_equals = true, hide = true,
          default_missing_value = "services", action = ArgAction::Set)]
    pub only: Option<NamesArg>,
}

/// Value of `--names`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamesArg {
    /// Names of Services, with their namespace unless --namespace is set
    Services,
    /// Names of namespaces
    Namespaces,
}
