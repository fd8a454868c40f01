//! Flags that decide the content of rules, for every command that renders.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, Args, Command, ValueEnum};

use super::{set, set_some};
use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::config::{feature_gates, go};
use crate::host::BackendChoice;

/// Configuration file, for commands that render and do not run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rules")]
pub struct RulesFileArgs {
    /// KubeProxyConfiguration to use instead of these flags
    ///
    /// Its kubeconfig and node name are used without the flags for them.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Settings that decide the content of rules.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rules")]
pub struct RulesArgs {
    /// Proxy mode; only iptables is supported
    #[arg(long, value_name = "MODE", hide_short_help = true)]
    pub proxy_mode: Option<String>,
    /// Pod networks; other traffic to cluster IPs is masqueraded
    #[arg(long, value_name = "CIDR[,CIDR]")]
    pub cluster_cidr: Option<String>,
    /// Detection of traffic from local Pods [default: ClusterCIDR]
    ///
    /// The modes are ClusterCIDR, NodeCIDR, BridgeInterface and InterfaceNamePrefix.
    #[arg(
        long,
        value_name = "MODE",
        value_parser = LocalModes,
        hide_possible_values = true
    )]
    pub detect_local_mode: Option<String>,
    /// Bridge interface of the Pods, for --detect-local-mode=BridgeInterface
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub pod_bridge_interface: Option<String>,
    /// Prefix of Pod interface names, for --detect-local-mode=InterfaceNamePrefix
    #[arg(long, value_name = "PREFIX", hide_short_help = true)]
    pub pod_interface_name_prefix: Option<String>,
    /// Masquerade all traffic to cluster IPs [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub masquerade_all: Option<bool>,
    /// Bit of the packet mark that requests masquerading (0-31) [default: 14]
    #[arg(
        long,
        value_name = "BIT",
        allow_negative_numbers = true,
        value_parser = go::int,
        hide_short_help = true
    )]
    pub iptables_masquerade_bit: Option<i32>,
    /// Networks with NodePorts, or `primary` [default: all]
    ///
    /// NodePorts accept connections on node addresses in these networks. The word `primary`
    /// selects the primary node address of each family.
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',')]
    pub nodeport_addresses: Option<Vec<String>>,
    /// Accept connections to NodePorts on 127.0.0.1 [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          hide_short_help = true)]
    pub iptables_localhost_nodeports: Option<bool>,
    /// Node address instead of that in the Node status [default: 0.0.0.0]
    #[arg(long, value_name = "IP", hide_short_help = true)]
    pub bind_address: Option<String>,
    /// Feature gates; only AllowServiceExternalIPs has an effect on rules
    #[arg(
        long,
        value_name = "NAME=BOOL,...",
        value_parser = feature_gates::parse,
        hide_short_help = true
    )]
    pub feature_gates: Vec<BTreeMap<String, bool>>,
    /// Variant of the iptables binaries
    #[arg(
        long,
        value_name = "BACKEND",
        value_enum,
        default_value = "auto",
        hide_short_help = true
    )]
    pub iptables_backend: BackendArg,
}

impl RulesArgs {
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        set(&mut to.mode, self.proxy_mode.as_ref());
        set(&mut to.cluster_cidr, self.cluster_cidr.as_ref());
        set(&mut to.detect_local_mode, self.detect_local_mode.as_ref());
        let names = &mut to.detect_local;
        set(
            &mut names.bridge_interface,
            self.pod_bridge_interface.as_ref(),
        );
        set(
            &mut names.interface_name_prefix,
            self.pod_interface_name_prefix.as_ref(),
        );
        let iptables = &mut to.iptables;
        set(&mut iptables.masquerade_all, self.masquerade_all.as_ref());
        set_some(
            &mut iptables.masquerade_bit,
            self.iptables_masquerade_bit.as_ref(),
        );
        set_some(
            &mut iptables.localhost_node_ports,
            self.iptables_localhost_nodeports.as_ref(),
        );
        if let Some(mut addresses) = self.nodeport_addresses.clone() {
            addresses.retain(|address| !address.is_empty());
            to.node_port_addresses = Some(addresses).filter(|addresses| !addresses.is_empty());
        }
        let address = self.bind_address.as_ref();
        set(
            &mut to.bind_address,
            address.filter(|text| !text.is_empty()),
        );
        to.feature_gates.extend(go::merge(&self.feature_gates));
    }
}

/// Parser that lists the modes in help and completions but accepts any text.
///
/// An unknown mode is reported by the validation, together with all other problems.
#[derive(Debug, Clone, Copy)]
struct LocalModes;

impl TypedValueParser for LocalModes {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = [
            "ClusterCIDR",
            "NodeCIDR",
            "BridgeInterface",
            "InterfaceNamePrefix",
        ];
        Some(Box::new(names.map(PossibleValue::new).into_iter()))
    }
}

/// Value of `--iptables-backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// Backend with kubelet's KUBE-IPTABLES-HINT, otherwise path
    Auto,
    /// Binaries iptables and ip6tables in PATH, including wrappers
    Path,
    /// Binaries with the suffix -nft
    Nft,
    /// Binaries with the suffix -legacy
    Legacy,
}

impl From<BackendArg> for BackendChoice {
    fn from(choice: BackendArg) -> Self {
        match choice {
            BackendArg::Path => Self::Path,
            BackendArg::Auto => Self::Auto,
            BackendArg::Nft => Self::Nft,
            BackendArg::Legacy => Self::Legacy,
        }
    }
}
