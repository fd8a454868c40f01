//! The fields of the file, section by section.
//!
//! Apart from what is done with them: this is the table that one looks a field up in. An absent
//! field, `null` and the zero of its type are one and the same, as kubeadm writes all three; where
//! zero means something else than "take the default", the field is an `Option`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Logging;
use crate::config::duration::GoDuration;

/// A section, with what is the same for every field.
macro_rules! section {
    ($(#[$about:meta])* $name:ident { $($(#[$more:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(
                #[serde(deserialize_with = "crate::config::kube_proxy::sections::or_default")]
                $(#[$more])*
                pub $field: $kind,
            )*
        }
    };
}
pub(super) use section;

section! {
    /// The whole file, but for `apiVersion` and `kind`.
    KubeProxyConfiguration {
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        feature_gates: BTreeMap<String, bool>,
        client_connection: ClientConnection,
        logging: Logging,
        hostname_override: String,
        bind_address: String,
        healthz_bind_address: String,
        metrics_bind_address: String,
        bind_address_hard_fail: bool,
        enable_profiling: bool,
        show_hidden_metrics_for_version: String,
        mode: String,
        iptables: IpTables,
        ipvs: Ipvs,
        nftables: NfTables,
        winkernel: Winkernel,
        detect_local_mode: String,
        detect_local: DetectLocal,
        #[serde(rename = "clusterCIDR")]
        cluster_cidr: String,
        node_port_addresses: Option<Vec<String>>,
        oom_score_adj: Option<i32>,
        conntrack: Conntrack,
        config_sync_period: GoDuration,
        /// Means nothing any more, but old files have it.
        port_range: String,
        #[serde(skip_serializing_if = "is_false")]
        windows_run_as_service: bool,
    }
}

section! {
    /// How to talk to the API server.
    ClientConnection {
        kubeconfig: String,
        accept_content_types: String,
        content_type: String,
        #[serde(serialize_with = "whole_if_it_is")]
        qps: f32,
        burst: i32,
    }
}

section! {
    /// What is particular to our mode.
    IpTables {
        masquerade_bit: Option<i32>,
        masquerade_all: bool,
        localhost_node_ports: Option<bool>,
        sync_period: GoDuration,
        /// `None`: by cost. A file cannot ask for zero: there, zero is `None`, too.
        #[serde(serialize_with = "none_is_zero")]
        min_sync_period: Option<GoDuration>,
    }
}

section! {
    /// Another mode's.
    Ipvs {
        sync_period: GoDuration,
        min_sync_period: GoDuration,
        scheduler: String,
        #[serde(rename = "excludeCIDRs")]
        exclude_cidrs: Option<Vec<String>>,
        #[serde(rename = "strictARP")]
        strict_arp: bool,
        tcp_timeout: GoDuration,
        tcp_fin_timeout: GoDuration,
        udp_timeout: GoDuration,
    }
}

section! {
    /// Another mode's.
    NfTables {
        masquerade_bit: Option<i32>,
        masquerade_all: bool,
        sync_period: GoDuration,
        min_sync_period: GoDuration,
    }
}

section! {
    /// Another system's.
    Winkernel {
        network_name: String,
        source_vip: String,
        #[serde(rename = "enableDSR")]
        enable_dsr: bool,
        root_hns_endpoint_name: String,
        forward_health_check_vip: bool,
    }
}

section! {
    /// What the modes of detection need, other than networks.
    DetectLocal {
        bridge_interface: String,
        interface_name_prefix: String,
    }
}

section! {
    /// The kernel's table of connections. Zero leaves a setting as it is.
    Conntrack {
        max_per_core: Option<i32>,
        min: Option<i32>,
        tcp_established_timeout: Option<GoDuration>,
        tcp_close_wait_timeout: Option<GoDuration>,
        tcp_be_liberal: bool,
        udp_timeout: GoDuration,
        udp_stream_timeout: GoDuration,
    }
}

/// `null` is as good as nothing.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A number as Go writes it: `5`, not `5.0`.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes every field by reference"
)]
fn whole_if_it_is<S: Serializer>(number: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    // Lossless below 2^24, beyond which nobody asks.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only taken if it is the same number"
    )]
    let whole = *number as i64;
    #[expect(
        clippy::cast_precision_loss,
        clippy::float_cmp,
        reason = "asks whether anything was lost"
    )]
    if whole as f32 == *number {
        whole.serialize(serializer)
    } else {
        number.serialize(serializer)
    }
}

#[expect(clippy::ref_option, reason = "serde passes every field by reference")]
fn none_is_zero<S: Serializer>(
    duration: &Option<GoDuration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.unwrap_or_default().serialize(serializer)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes every field by reference"
)]
pub(super) const fn is_false(is: &bool) -> bool {
    !*is
}
