//! Values of all flags of the command line for `/flagz`, with defaults but without the file.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/component-base/zpages/flagz/flagreader.go` (v1.36)

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::FIELDS;
use super::flags::RunArgs;

/// Defaults of flags without a field, and of flags whose field has another default. `cleanup` and
/// `init-only` are always false where `/flagz` is served.
const DEFAULTS: &[(&str, &str)] = &[
    ("boot-id-file", "/proc/sys/kernel/random/boot_id"),
    ("cleanup", "false"),
    ("config", ""),
    ("healthz-port", "10256"),
    ("help", "false"),
    ("init-only", "false"),
    ("ipvs-min-sync-period", "1s"),
    ("ipvs-sync-period", "30s"),
    (
        "machine-id-file",
        "/etc/machine-id,/var/lib/dbus/machine-id",
    ),
    ("manifests", ""),
    ("master", ""),
    ("metrics-port", "10249"),
    ("state-dir", ""),
    ("sync-cpu-budget", ""),
    ("verify-interval", "5m0s"),
    ("version", "false"),
    ("write-config-to", ""),
];

/// Returns the values of all flags of `run` in the format of Go.
pub(super) fn values(args: &RunArgs) -> BTreeMap<String, String> {
    let tree = args.configuration().to_json();
    let fields = FIELDS.iter().filter(|field| !field.flag.is_empty());
    let of_fields = fields.map(|field| {
        let mut names = field.path.split('.');
        let value = names.try_fold(&tree, |tree, name| tree.get(name));
        (field.flag, text(field.path, value.unwrap_or(&Value::Null)))
    });
    let defaults = DEFAULTS
        .iter()
        .map(|(flag, value)| (*flag, (*value).to_owned()));
    let all = of_fields.chain(defaults).chain(typed(args));
    all.map(|(flag, value)| (flag.to_owned(), value)).collect()
}

/// Returns the flags that are shown as typed, and those without a field.
fn typed(args: &RunArgs) -> impl Iterator<Item = (&'static str, String)> {
    let (source, serve, unused) = (&args.source, &args.serve, &args.unused);
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|p| p.display().to_string());
    let port = |port: Option<u16>| port.map(|port| port.to_string());
    let period = |period: Option<super::go::GoDuration>| period.map(|p| p.to_string());
    let typed = [
        ("boot-id-file", unused.boot_id_file.clone()),
        ("config", path(&args.file.config)),
        ("dry-run", Some(args.sync.dry_run.to_string())),
        ("healthz-bind-address", serve.healthz_bind_address.clone()),
        ("healthz-port", port(serve.healthz_port)),
        ("hostname-override", source.hostname_override.clone()),
        ("iptables-backend", named(&args.rules.iptables_backend)),
        (
            "ipvs-min-sync-period",
            period(args.ipvs.ipvs_min_sync_period),
        ),
        ("ipvs-sync-period", period(args.ipvs.ipvs_sync_period)),
        ("machine-id-file", unused.machine_id_file.clone()),
        ("manifests", path(&source.manifests)),
        (
            "manifests-service-cidr",
            Some(source.manifests_service_cidr.clone()),
        ),
        ("master", source.master.clone()),
        ("metrics-bind-address", serve.metrics_bind_address.clone()),
        ("metrics-port", port(serve.metrics_port)),
        ("partial-restore", named(&args.sync.partial_restore)),
        (
            "sync-cpu-budget",
            args.sync.sync_cpu_budget.map(|percent| percent.to_string()),
        ),
        ("state-dir", path(&args.sync.state_dir)),
        ("verify-interval", period(args.sync.verify_interval)),
        ("write-config-to", path(&args.file.write_config_to)),
    ];
    let given = typed.into_iter();
    given.filter_map(|(flag, value)| Some((flag, value?)))
}

/// Returns the word of an enumerated value.
fn named(word: &impl clap::ValueEnum) -> Option<String> {
    let value = word.to_possible_value()?;
    Some(value.get_name().to_owned())
}

/// Formats the value of a field as its flag does. An unset field is the zero of the flag's type.
fn text(path: &str, value: &Value) -> String {
    match value {
        Value::Null if path.ends_with("splitStream") => "false".to_owned(),
        Value::Null if matches!(path, "nodePortAddresses" | "ipvs.excludeCIDRs") => "[]".to_owned(),
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if path == "logging.vmodule" => joined(items.iter().map(pattern)),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(plain))),
        Value::Object(gates) => joined(gates.iter().map(|(name, is)| format!("{name}={is}"))),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn pattern(entry: &Value) -> String {
    let field = |name| entry.get(name).map(plain).unwrap_or_default();
    format!("{}={}", field("filePattern"), field("verbosity"))
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}
