//! Fields of a configuration by their paths, such as `conntrack.maxPerCore`, and their defaults.
//!
//! A configuration is serialized to a JSON tree for this. The list of all fields is what it
//! serializes to, so that there is no second list to keep up to date.
//!
//! In most fields zero means the default, and kubeadm relies on it: most of what it writes are
//! zeros. Flags start from the same defaults.
//!
//! # Source
//!
//! Upstream: pkg/proxy/apis/config/v1alpha1/defaults.go, `SetDefaults_KubeProxyConfiguration`,
//! `cmd/kube-proxy/app/server_linux.go`, `platformApplyDefaults` (v1.37)

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;

use super::{DEFAULT_SERVICE_DISPATCH, KubeProxyConfiguration};
use crate::config::settings;
use crate::net::parse_ip;

/// Fields whose keys are chosen by users.
const MAPS: &[&str] = &["featureGates"];

/// Header of every Kubernetes object.
const HEADER: &[&str] = &["apiVersion", "kind"];

/// Returns the tree of a configuration, with `null` for fields that are not set.
pub(super) fn tree(configuration: &KubeProxyConfiguration) -> Value {
    // Cannot fail: every key is a string and no number is infinite.
    serde_json::to_value(configuration).unwrap_or_default()
}

/// Returns the paths of all fields that are not sections, including those omitted while empty.
pub(in crate::config) fn leaves() -> Vec<String> {
    let mut all = paths(&tree(&KubeProxyConfiguration::default()), "");
    all.extend(WHEN_SET.iter().map(|&path| path.to_owned()));
    all
}

/// Fields that are written only if they are set.
const WHEN_SET: &[&str] = &[
    "featureGates",
    "logging.vmodule",
    "logging.options.text.splitStream",
    "logging.options.json.splitStream",
    "windowsRunAsService",
    "deltaproxy.serviceDispatch",
];

fn paths(tree: &Value, at: &str) -> Vec<String> {
    match tree {
        Value::Object(fields) if !MAPS.contains(&at) => fields
            .iter()
            .flat_map(|(name, value)| paths(value, &below(at, name)))
            .collect(),
        _ => vec![at.to_owned()],
    }
}

/// Returns the paths of the fields that differ between two configurations.
pub(in crate::config) fn differing(
    a: &KubeProxyConfiguration,
    b: &KubeProxyConfiguration,
) -> Vec<String> {
    let (a, b) = (tree(a), tree(b));
    let mut all = leaves();
    all.retain(|path| field(&a, path) != field(&b, path));
    all
}

/// Returns the field of a tree with this path.
pub(in crate::config) fn field<'a>(tree: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(tree, |tree, name| tree.get(name))
}

/// Returns the field of a tree with this path, which is added if absent.
pub(in crate::config) fn field_mut<'a>(tree: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(tree, |tree, name| &mut tree[name])
}

/// Changes the fields of a configuration by their paths.
///
/// `edit` must keep the types of fields. Tests set every flag and every default.
pub(in crate::config) fn change(
    configuration: &mut KubeProxyConfiguration,
    edit: impl FnOnce(&mut Value),
) {
    let mut tree = tree(configuration);
    edit(&mut tree);
    let edited = serde_json::from_value(tree);
    debug_assert!(edited.is_ok(), "{edited:?}");
    if let Ok(edited) = edited {
        *configuration = edited;
    }
}

/// Returns the fields in `tree` of the wrong type, with their errors. Each field is decoded alone,
/// so that all of them are found. Sections are checked first, because a list decodes as a section.
pub(super) fn mistyped(tree: &Value) -> Vec<(String, String)> {
    let (known, mut found) = (leaves(), Vec::new());
    for path in paths(tree, "") {
        let Some(value) = field(tree, &path) else {
            continue;
        };
        if !value.is_object() && !value.is_null() && is_section(&path, &known) {
            found.push((path, format!("must be an object, got {value}")));
            continue;
        }
        let alone = path.rsplit('.').fold(value.clone(), |inner, name| {
            Value::Object([(name.to_owned(), inner)].into_iter().collect())
        });
        if let Err(error) = serde_json::from_value::<KubeProxyConfiguration>(alone) {
            found.push((path, error.to_string()));
        }
    }
    found
}

/// Returns the paths in `tree` that are not fields.
pub(super) fn unknown(tree: &Value) -> Vec<String> {
    let known = leaves();
    let is_known = |path: &String| {
        HEADER.contains(&path.as_str()) || known.contains(path) || is_section(path, &known)
    };
    let mut found = paths(tree, "");
    found.extend(inside_vmodule(tree));
    found.retain(|path| !is_known(path));
    found
}

/// Reports whether there are fields below `path`.
fn is_section(path: &str, leaves: &[String]) -> bool {
    let is_below = |leaf: &String| {
        leaf.strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    leaves.iter().any(is_below)
}

/// Returns the unknown fields in `logging.vmodule`, the only list of objects.
fn inside_vmodule(tree: &Value) -> Vec<String> {
    const KNOWN: &[&str] = &["filePattern", "verbosity"];
    let entries = field(tree, "logging.vmodule").and_then(Value::as_array);
    let objects = entries.into_iter().flatten().filter_map(Value::as_object);
    objects
        .flat_map(serde_json::Map::keys)
        .filter(|key| !KNOWN.contains(&key.as_str()))
        .map(|key| format!("logging.vmodule[].{key}"))
        .collect()
}

fn below(at: &str, name: &str) -> String {
    if at.is_empty() {
        name.to_owned()
    } else {
        format!("{at}.{name}")
    }
}

/// Joins names, each in backticks.
pub(in crate::config) fn quoted(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

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
    ///
    /// Differs from upstream: a minimum sync period of zero does not mean one second, but is left
    /// to the CPU budget, which allows up to one second.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        let zeros = tree(&Self::default());
        change(&mut self, |fields| {
            for setting in settings::all().filter(|setting| !setting.path.is_empty()) {
                if let Some(default) = setting.default_value()
                    && field(fields, setting.path) == field(&zeros, setting.path)
                {
                    *field_mut(fields, setting.path) = default;
                }
            }
        });
        // As upstream: anything but an IPv4 address selects IPv6, even an invalid address.
        let (everywhere, here) = match self.bind_address.parse::<Ipv4Addr>() {
            Ok(_) => ("0.0.0.0", "127.0.0.1"),
            Err(_) => ("::", "::1"),
        };
        or(&mut self.healthz_bind_address, everywhere);
        or(&mut self.metrics_bind_address, here);
        add_port(&mut self.healthz_bind_address, HEALTHZ_PORT);
        add_port(&mut self.metrics_bind_address, METRICS_PORT);
        self
    }

    /// Sets the modes that are still empty to their defaults.
    pub fn choose_modes(&mut self) {
        or(&mut self.mode, "iptables");
        or(&mut self.detect_local_mode, "ClusterCIDR");
        let dispatch = &mut self.deltaproxy.service_dispatch;
        or(dispatch, DEFAULT_SERVICE_DISPATCH);
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
