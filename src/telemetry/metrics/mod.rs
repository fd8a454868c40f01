//! Metrics of the process: names, labels, buckets and the one registry.
//!
//! Names are an interface: metrics of kube-proxy keep its name, labels and buckets, so that
//! dashboards go on working; all others begin with `deltaproxy_`. HELP texts are deltaproxy's own.

mod connections;
mod factory;
mod health;
mod process;
mod restores;
mod shadow;
mod sync;
mod watch;

use prometheus::{Registry, Result};

pub(crate) use connections::{ConnectionMetrics, ConnectionReading};
pub(crate) use health::{
    ConfigFileState, ConfigMetrics, HealthMetrics, HistoryMetrics, ManifestMetrics, UnknownSettings,
};
use process::ReadCount;
pub(super) use process::{KUBE_PROXY_MINOR_VERSION, START, register_start};
pub(crate) use process::{
    KUBE_PROXY_VERSION, KubernetesBuild, KubernetesVersion, PREVIOUS_MINOR_VERSION,
};
pub(crate) use restores::SyncKind;
pub(crate) use shadow::{ShadowMetrics, ShadowProxy};
pub(crate) use sync::SyncMetrics;
pub(crate) use watch::{RequestMetrics, WatchAges, WatchMetrics};

/// All metrics of the process. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub registry: Registry,
    pub build: KubernetesBuild,
    pub sync: SyncMetrics,
    pub health: HealthMetrics,
    pub config: ConfigMetrics,
    pub manifests: ManifestMetrics,
    pub shadow: ShadowMetrics,
    pub watch: WatchMetrics,
}

impl Metrics {
    /// Registers all metrics. Fails only if two had the same name, which a test excludes.
    pub(crate) fn new() -> Result<Self> {
        let registry = Registry::new();
        process::register(&registry)?;
        Ok(Self {
            build: KubernetesBuild::register(&registry)?,
            sync: SyncMetrics::register(&registry)?,
            health: HealthMetrics::register(&registry)?,
            config: ConfigMetrics::register(&registry)?,
            manifests: ManifestMetrics::register(&registry)?,
            shadow: ShadowMetrics::register(&registry)?,
            watch: WatchMetrics::register(&registry)?,
            registry,
        })
    }

    /// Adds the counts of packets that the kernel has.
    pub(crate) fn count_packets(&self, invalid: ReadCount, localhost: ReadCount) -> Result<()> {
        process::register_packet_counts(&self.registry, invalid, localhost)
    }
}
