//! Flags that the commands which do not run share: where rules and objects come from, and a
//! selection of Services.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::shared::{RulesArgs, SourceArgs};
use crate::config::addresses;
use crate::config::go::{GoDuration, InvalidDuration};
use crate::config::problems::Unusable;
use crate::inspect::catalog::{NamePattern, PortQuery};
use crate::net::{IpNet, PerFamily};

/// Objects and settings that desired rules follow from, for every command that renders.
#[derive(Debug, Clone, Args)]
pub struct DesiredArgs {
    /// Source of Services, EndpointSlices and the Node.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Settings that no daemon has.
    #[command(flatten)]
    pub one_read: OneReadArgs,
    /// KubeProxyConfiguration to use instead of these flags
    ///
    /// Its kubeconfig and node name are used without the flags for them.
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    pub config: Option<PathBuf>,
    /// Settings that decide the content of rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

/// Settings of sources for commands that read them once, which the daemon does not have.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct OneReadArgs {
    /// Maximum time to list the objects of a cluster; 0 for none
    ///
    /// Without a limit, a request still fails after 60 s without a response.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "60s",
        value_parser = not_negative,
        hide_short_help = true
    )]
    pub request_timeout: GoDuration,
    /// Networks for load balancer IPs that manifests lack
    ///
    /// One CIDR for each IP family. `diff` uses them with --from-manifests, `run` never. The
    /// default is for benchmarks of networks (RFC 2544 and RFC 5180): like those for documentation,
    /// its addresses are never routed, and it is large enough for many Services.
    #[arg(
        long,
        value_name = "CIDR[,CIDR]",
        default_value = "198.18.0.0/16,2001:2::/64",
        value_parser = addresses::of_each_family,
        hide_short_help = true
    )]
    pub manifests_load_balancer_cidr: PerFamily<IpNet>,
}

/// Parses a duration as of kubectl's flag with this name.
fn not_negative(text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text
        .parse()
        .map_err(|error: InvalidDuration| error.to_string())?;
    if duration < GoDuration::ZERO {
        return Err(format!("must not be negative, got {text}"));
    }
    Ok(duration)
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
    pub desired: DesiredArgs,
}

/// Selection of Services by name, by namespace or both.
#[derive(Debug, Clone, Args)]
pub struct SelectionArgs {
    /// Only these Services, as in web, shop/web:http or shop/dns:53/udp
    #[arg(value_name = "NAME")]
    pub names: Vec<NamePattern>,
    /// Namespace of the Services.
    #[command(flatten)]
    pub namespace: NamespaceArgs,
}

/// Namespace of the Services that a command inspects.
#[derive(Debug, Clone, Args)]
pub struct NamespaceArgs {
    /// Only Services of this namespace
    #[arg(id = "namespace", short = 'n', long, value_name = "NAMESPACE")]
    pub name: Option<String>,
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
    pub fn query(&self) -> Result<PortQuery, Unusable> {
        PortQuery::new(&self.names, self.namespace.name.as_deref())
            .map_err(|error| Unusable::of_flag("namespace", error.to_string()))
    }
}

/// Colors of the commands whose text people read.
#[derive(Debug, Clone, Copy, Args)]
pub struct ColorArgs {
    /// Colors on stdout: always, never, or auto
    ///
    /// With auto, a terminal gets colors unless NO_COLOR is set.
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub when: ColorWhen,
}

/// Value of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless the environment says otherwise
    Auto,
    /// Also to a file or a pipe, such as that of a pager
    Always,
    /// No colors
    Never,
}
