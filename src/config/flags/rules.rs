//! What shapes the rules.
//!
//! Apart because every command that renders has these.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, Args, Command, ValueEnum};

use super::{set, set_some};
use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::config::{feature_gates, go};
use crate::host::BackendChoice;

/// What shapes the rules.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rules")]
pub struct RulesArgs {
    /// How rules are made: `iptables`
    #[arg(long, value_name = "MODE")]
    pub proxy_mode: Option<String>,
    /// The Pods' networks: traffic from elsewhere to a cluster IP is masqueraded
    #[arg(long, value_name = "CIDR[,CIDR]")]
    pub cluster_cidr: Option<String>,
    /// How traffic from this node's Pods is told apart [default: ClusterCIDR]
    #[arg(long, value_name = "MODE", value_parser = LocalModes)]
    pub detect_local_mode: Option<String>,
    /// The bridge of mode BridgeInterface
    #[arg(long, value_name = "NAME")]
    pub pod_bridge_interface: Option<String>,
    /// The beginning of interface names of mode InterfaceNamePrefix
    #[arg(long, value_name = "PREFIX")]
    pub pod_interface_name_prefix: Option<String>,
    /// Masquerade all traffic to cluster IPs [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub masquerade_all: Option<bool>,
    /// The bit of the firewall mark that means: masquerade [default: 14]
    #[arg(long, value_name = "BIT", allow_negative_numbers = true, value_parser = go::int)]
    pub iptables_masquerade_bit: Option<i32>,
    /// The addresses NodePorts answer on: networks, or the word `primary`; without it, all
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',')]
    pub nodeport_addresses: Option<Vec<String>>,
    /// Let NodePorts answer on 127.0.0.1, too [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub iptables_localhost_nodeports: Option<bool>,
    /// This node's address, in place of the one the cluster knows [default: 0.0.0.0]
    #[arg(long, value_name = "IP")]
    pub bind_address: Option<String>,
    /// Feature gates of Kubernetes; of these, AllowServiceExternalIPs has an effect
    #[arg(long, value_name = "NAME=BOOL,...", value_parser = feature_gates::parse)]
    pub feature_gates: Vec<BTreeMap<String, bool>>,
    /// Which iptables programs: `auto` follows kubelet, `path` takes the plain names
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "auto")]
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

/// The modes that help and completions name. Others are found wrong together with all the rest, as
/// in a file.
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

/// `--iptables-backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// Where kubelet left its hint chain; without one, plain names through PATH
    Auto,
    /// Plain names through PATH, wrappers included
    Path,
    /// The -nft programs
    Nft,
    /// The -legacy programs
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
