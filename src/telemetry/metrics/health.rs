//! Metrics of health: responses of its server, files that cannot be used, as the configuration file
//! and manifests, and records of the history that were lost.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Registry, Result};

use super::factory::{MetricFactory, OWN, UPSTREAM, count, gauge, set};

/// Metrics of the health server. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct HealthMetrics {
    pub(crate) healthz: IntCounterVec,
    pub(crate) livez: IntCounterVec,
}

impl HealthMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::new(registry, UPSTREAM);
        let by_code = |name, help| -> Result<IntCounterVec> {
            let counters = up.counters(name, help, &["code"])?;
            for code in ["200", "503"] {
                counters.with_label_values(&[code]);
            }
            Ok(counters)
        };
        Ok(Self {
            healthz: by_code(
                "proxy_healthz_total",
                "Number of /healthz responses by status code",
            )?,
            livez: by_code(
                "proxy_livez_total",
                "Number of /livez responses by status code",
            )?,
        })
    }
}

/// Content of the configuration file, compared with the configuration of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigFileState {
    /// The running configuration.
    Running,
    /// Another valid configuration, which a restart would use.
    Stale,
    /// A configuration that no process can start with.
    Invalid,
}

/// Settings of the running configuration that this version does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnknownSettings {
    pub feature_gates: Vec<String>,
    /// Paths of fields in the file.
    pub fields: Vec<String>,
}

impl UnknownSettings {
    /// Returns the paths of all of them in the file.
    pub(crate) fn paths(&self) -> Vec<String> {
        let gates = self.feature_gates.iter();
        let gates = gates.map(|name| format!("featureGates.{name}"));
        gates.chain(self.fields.iter().cloned()).collect()
    }
}

/// Metrics of the configuration file. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct ConfigMetrics {
    stale: IntGauge,
    invalid: IntGauge,
    unknown: IntGaugeVec,
}

impl ConfigMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
        Ok(Self {
            stale: own.gauge(
                "config_stale",
                "1 if the configuration file holds another valid configuration than the running \
                 one",
            )?,
            invalid: own.gauge(
                "config_invalid",
                "1 if the configuration file holds a configuration that no process can start with",
            )?,
            unknown: own.gauges(
                "config_unknown_settings",
                "Number of feature gates and fields of the running configuration that are \
                 ignored: this version does not know them",
                &["kind"],
            )?,
        })
    }

    pub(crate) fn set_unknown(&self, unknown: &UnknownSettings) {
        let UnknownSettings {
            feature_gates,
            fields,
        } = unknown;
        for (kind, names) in [("feature_gate", feature_gates), ("field", fields)] {
            set(&self.unknown, &[kind], names.len());
        }
    }

    /// Reports whether the file has another valid configuration than the one in use.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.get() != 0
    }

    /// Reports whether the configuration in the file cannot be used.
    pub(crate) fn is_invalid(&self) -> bool {
        self.invalid.get() != 0
    }

    pub(crate) fn set(&self, state: ConfigFileState) {
        self.stale.set((state == ConfigFileState::Stale).into());
        self.invalid.set((state == ConfigFileState::Invalid).into());
    }
}

/// Metrics of manifests. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct ManifestMetrics {
    pub(crate) unusable_files: IntGauge,
    pub(crate) skipped_objects: IntGauge,
    pub(crate) ignored_fields: IntGauge,
}

impl ManifestMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
        Ok(Self {
            unusable_files: own.gauge(
                "unusable_manifest_files",
                "Number of manifest files that cannot be read or parsed now",
            )?,
            skipped_objects: own.gauge(
                "skipped_manifest_objects",
                "Number of objects of manifests that are skipped: fields have wrong types",
            )?,
            ignored_fields: own.gauge(
                "ignored_manifest_fields",
                "Number of fields of manifests that are ignored: unknown, of a wrong type, or \
                 without a supported value",
            )?,
        })
    }

    pub(crate) fn set_files(&self, unusable: usize) {
        self.unusable_files.set(gauge(unusable));
    }

    /// Records the numbers of objects that are skipped, and of fields that are ignored in others.
    pub(crate) fn set_objects(&self, skipped: usize, ignored_fields: usize) {
        self.skipped_objects.set(gauge(skipped));
        self.ignored_fields.set(gauge(ignored_fields));
    }
}

const QUEUE_FULL: &str = "queue_full";
const WRITE_FAILED: &str = "write_failed";

/// Metrics of the history; only with `--state-dir`.
#[derive(Debug, Clone)]
pub(crate) struct HistoryMetrics {
    lost: IntCounterVec,
}

impl HistoryMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
        let lost = own.counters(
            "history_lost_records_total",
            "Number of records and failed payloads that were not written to --state-dir",
            &["reason"],
        )?;
        for reason in [QUEUE_FULL, WRITE_FAILED] {
            lost.with_label_values(&[reason]);
        }
        Ok(Self { lost })
    }

    /// Counts a record that came while the disk was slow.
    pub(crate) fn queue_full(&self) {
        count(&self.lost, &[QUEUE_FULL]);
    }

    /// Counts a record that could not be written.
    pub(crate) fn write_failed(&self) {
        count(&self.lost, &[WRITE_FAILED]);
    }
}
