//! Defaults of fields that are not set.
//!
//! In most fields zero means the default, and kubeadm relies on it: most of what it writes are
//! zeros. Flags start from the same defaults.
//!
//! # Source
//!
//! Upstream: pkg/proxy/apis/config/v1alpha1/defaults.go, `SetDefaults_KubeProxyConfiguration`,
//! `cmd/kube-proxy/app/server_linux.go`, `platformApplyDefaults` (v1.36)

use std::net::{Ipv4Addr, SocketAddr};

use super::KubeProxyConfiguration;
use super::sections::{ClientConnection, Conntrack, IpTables, Logging, NfTables};
use crate::config::go::GoDuration;
use crate::net::parse_ip;

/// Port of the health server if its address has none.
pub(in crate::config) const HEALTHZ_PORT: u16 = 10256;

/// Address that disables a server.
pub(in crate::config) const OFF: &str = "off";

/// Port of the metrics server if its address has none.
pub(in crate::config) const METRICS_PORT: u16 = 10249;

impl KubeProxyConfiguration {
    /// Returns the configuration of kube-proxy without flags and file.
    pub fn defaults() -> Self {
        Self::default().with_defaults()
    }

    /// Sets every field that is zero and has another default.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        or(&mut self.bind_address, "0.0.0.0");
        // As upstream: anything but an IPv4 address selects IPv6, even an invalid address.
        let (everywhere, here) = match self.bind_address.parse::<Ipv4Addr>() {
            Ok(_) => ("0.0.0.0", "127.0.0.1"),
            Err(_) => ("::", "::1"),
        };
        or(&mut self.healthz_bind_address, everywhere);
        or(&mut self.metrics_bind_address, here);
        add_port(&mut self.healthz_bind_address, HEALTHZ_PORT);
        add_port(&mut self.metrics_bind_address, METRICS_PORT);
        or_time(&mut self.config_sync_period, 15 * 60);
        self.oom_score_adj.get_or_insert(-999);
        self.client_connection.set_defaults();
        self.logging.set_defaults();
        self.iptables.set_defaults();
        self.nftables.set_defaults();
        self.conntrack.set_defaults();
        self
    }

    /// Sets the modes that are still empty to their defaults.
    pub fn choose_modes(&mut self) {
        or(&mut self.mode, "iptables");
        or(&mut self.detect_local_mode, "ClusterCIDR");
    }
}

impl ClientConnection {
    fn set_defaults(&mut self) {
        or(
            &mut self.content_type,
            "application/vnd.kubernetes.protobuf",
        );
        if self.qps == 0.0 {
            self.qps = 5.0;
        }
        if self.burst == 0 {
            self.burst = 10;
        }
    }
}

impl Logging {
    fn set_defaults(&mut self) {
        or(&mut self.format, "text");
        or_time(&mut self.flush_frequency.0, 5);
    }
}

impl IpTables {
    /// Differs from upstream: a minimum sync period of zero does not mean one second, but is left
    /// to the CPU budget, which allows up to one second.
    fn set_defaults(&mut self) {
        self.masquerade_bit.get_or_insert(14);
        self.localhost_node_ports.get_or_insert(true);
        or_time(&mut self.sync_period, 30);
        self.min_sync_period
            .take_if(|period| *period == GoDuration::ZERO);
    }
}

impl NfTables {
    fn set_defaults(&mut self) {
        self.masquerade_bit.get_or_insert(14);
    }
}

impl Conntrack {
    fn set_defaults(&mut self) {
        self.max_per_core.get_or_insert(32 * 1024);
        self.min.get_or_insert(128 * 1024);
        self.tcp_established_timeout
            .get_or_insert(GoDuration::seconds(24 * 3600));
        self.tcp_close_wait_timeout
            .get_or_insert(GoDuration::seconds(3600));
    }
}

/// Adds a port to an address that has none. Any other text is unchanged, even if invalid.
pub(in crate::config) fn add_port(address: &mut String, port: u16) {
    if let Some(ip) = parse_ip(address) {
        *address = SocketAddr::new(ip, port).to_string();
    }
}

fn or(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}

fn or_time(duration: &mut GoDuration, seconds: u32) {
    if *duration == GoDuration::ZERO {
        *duration = GoDuration::seconds(seconds);
    }
}
