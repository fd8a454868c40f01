//! Fields of the file, section by section.
//!
//! An absent field, `null` and the zero of its type are equal, because kubeadm writes all three. A
//! field is an `Option` where zero does not mean the default.
//!
//! # Source
//!
//! Upstream: staging/src/k8s.io/component-base/logs/api/v1/types.go (v1.37), for logging

use std::collections::BTreeMap;

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::config::go::GoDuration;
use crate::ingest::or_default;

/// Declares a section with the attributes that all its fields share.
macro_rules! section {
    ($(#[$about:meta])* $name:ident { $($(#[$more:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(
                #[serde(deserialize_with = "or_default")]
                $(#[$more])*
                pub $field: $kind,
            )*
        }
    };
}

section! {
    /// The whole file except `apiVersion` and `kind`.
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
        /// Removed from kube-proxy, but still in old files.
        port_range: String,
        #[serde(skip_serializing_if = "is_false")]
        windows_run_as_service: bool,
        #[serde(skip_serializing_if = "OwnFields::are_defaults")]
        deltaproxy: OwnFields,
    }
}

section! {
    /// Fields that kube-proxy does not have. It logs a warning about them, and ignores them.
    OwnFields {
        service_dispatch: String,
    }
}

impl OwnFields {
    /// Reports whether the fields have no effect, and may be left out for kube-proxy.
    fn are_defaults(&self) -> bool {
        ["", DEFAULT_SERVICE_DISPATCH].contains(&self.service_dispatch.as_str())
    }
}

/// Default of `deltaproxy.serviceDispatch`.
pub(in crate::config) const DEFAULT_SERVICE_DISPATCH: &str = "auto";

section! {
    /// Connection to the API server.
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
    /// Settings of proxy mode `iptables`.
    IpTables {
        masquerade_bit: Option<i32>,
        masquerade_all: bool,
        localhost_node_ports: Option<bool>,
        sync_period: GoDuration,
        /// Zero: limited by the CPU budget.
        min_sync_period: GoDuration,
    }
}

section! {
    /// Settings of proxy mode `ipvs`.
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
    /// Settings of proxy mode `nftables`.
    NfTables {
        masquerade_bit: Option<i32>,
        masquerade_all: bool,
        sync_period: GoDuration,
        min_sync_period: GoDuration,
    }
}

section! {
    /// Settings for Windows.
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
    /// Interface names for the detection of local traffic.
    DetectLocal {
        bridge_interface: String,
        interface_name_prefix: String,
    }
}

section! {
    /// Conntrack settings. Zero leaves the kernel setting unchanged.
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

section! {
    /// Logging, as in other components of Kubernetes.
    Logging {
        format: String,
        flush_frequency: FlushFrequency,
        verbosity: u32,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        vmodule: Vec<VModule>,
        options: LoggingOptions,
    }
}

section! {
    /// Verbosity for the source files of kube-proxy that match a pattern.
    VModule {
        file_pattern: String,
        verbosity: u32,
    }
}

section! {
    /// Options of each log format.
    LoggingOptions {
        text: FormatOptions,
        json: FormatOptions,
    }
}

section! {
    /// Streams and buffers of one log format.
    FormatOptions {
        #[serde(skip_serializing_if = "is_false")]
        split_stream: bool,
        info_buffer_size: Quantity,
    }
}

/// Duration that may also be a number of nanoseconds in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FlushFrequency(pub GoDuration);

impl<'de> Deserialize<'de> for FlushFrequency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "a duration, or a number of nanoseconds";
        let duration = match &Value::deserialize(deserializer)? {
            Value::String(text) => text.parse().map_err(D::Error::custom),
            other => other
                .as_i64()
                .map(GoDuration::nanoseconds)
                .ok_or_else(|| unexpected(other, EXPECTED)),
        };
        duration.map(Self)
    }
}

fn unexpected<E: Error>(value: &Value, expected: &'static str) -> E {
    E::invalid_type(Unexpected::Other(&value.to_string()), &expected)
}

/// Kubernetes quantity, a number with a unit such as `64Ki`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quantity(String);

impl Quantity {
    /// Reports whether the number is zero, with any unit. A text that is not a quantity is not.
    pub fn is_zero(&self) -> bool {
        let number = self.0.trim_start_matches(['+', '-']);
        number.starts_with('0') && !number.contains(|c: char| matches!(c, '1'..='9'))
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self("0".to_owned())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text.clone())),
            Value::Number(number) if !number.is_f64() => Ok(Self(number.to_string())),
            other => Err(unexpected(other, "a quantity such as 64Ki")),
        }
    }
}

/// Serializes a number as Go does: `5`, not `5.0`.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes every field by reference"
)]
fn whole_if_it_is<S: Serializer>(number: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    /// Larger rates do not occur, except the largest number in place of infinity.
    const MOST_WHOLE: f32 = 1e15;

    if number.fract() != 0.0 || number.abs() > MOST_WHOLE {
        return number.serialize(serializer);
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole, and not too large")]
    let whole = *number as i64;
    whole.serialize(serializer)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes every field by reference"
)]
const fn is_false(is: &bool) -> bool {
    !*is
}
