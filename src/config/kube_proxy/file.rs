//! The configuration as a file, YAML or JSON, and its fields by their paths, such as
//! `conntrack.maxPerCore`, with their defaults.
//!
//! A text becomes a JSON tree first, as in Kubernetes, so that YAML has the types of JSON: `'5'` is
//! a string. Decoding is strict if possible and lenient otherwise: unknown and repeated fields are
//! reported but do not make the file unusable, as it may be for a newer kube-proxy.
//!
//! Fields are read and set by path in such a tree, which a configuration becomes. The list of all
//! fields is that of [`settings`]. In most fields zero means the default, and kubeadm relies on it:
//! most of what it writes are zeros. Flags start from the same defaults.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `loadConfig`;
//! pkg/proxy/apis/config/v1alpha1/defaults.go, `SetDefaults_KubeProxyConfiguration`,
//! `cmd/kube-proxy/app/server_linux.go`, `platformApplyDefaults` (v1.37)

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{DEFAULT_SERVICE_DISPATCH, KubeProxyConfiguration};
use crate::config::settings;
use crate::ingest::yaml::{DocumentText, RepeatedKey, SyntaxError};
use crate::ingest::{UnknownField, WrongType, decode};
use crate::net::parse_ip;

/// Returns the tree of a configuration, with `null` for fields that are not set.
pub(super) fn tree(configuration: &KubeProxyConfiguration) -> Value {
    // Cannot fail: every key is a string and no number is infinite.
    serde_json::to_value(configuration).unwrap_or_default()
}

/// Returns the paths of the fields that differ between two configurations, sorted.
pub(in crate::config) fn differing(
    a: &KubeProxyConfiguration,
    b: &KubeProxyConfiguration,
) -> Vec<String> {
    let (a, b) = (tree(a), tree(b));
    let paths = settings::all().map(|setting| setting.path);
    let differing = paths.filter(|path| field(&a, path) != field(&b, path));
    let mut differing: Vec<String> = differing.map(str::to_owned).collect();
    differing.sort_unstable();
    differing
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

    /// Encodes the configuration as the content of `/configz`.
    ///
    /// Upstream: staging/src/k8s.io/component-base/configz/configz.go (v1.37)
    pub fn to_configz(&self) -> String {
        json!({"kubeproxy.config.k8s.io": self.to_json()}).to_string()
    }

    /// Returns the configuration as a JSON object with its header.
    pub fn to_json(&self) -> Value {
        let mut tree = tree(self);
        if let Value::Object(fields) = &mut tree {
            fields.insert("apiVersion".to_owned(), API_VERSION.into());
            fields.insert("kind".to_owned(), KIND.into());
        }
        tree
    }

    /// Encodes the configuration as a file.
    ///
    /// Fields are in the order of their names, as kube-proxy writes them, so that files of both
    /// programs can be compared with `diff`.
    pub fn to_yaml(&self) -> String {
        // Cannot fail: every JSON tree can be written as YAML.
        serde_saphyr::to_string(&self.to_json()).unwrap_or_default()
    }
}

/// Completes an address by the deprecated flag of its port. Port 0 and an empty address disable
/// the server; any other port only completes an address that has none. A disabled server is
/// written as `off`, because an empty address in a file means the default.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `addressFromDeprecatedFlags` (v1.37)
///
/// Differs from upstream: its help says that an empty address disables the server, but there it
/// means the default, and without metrics it ends with an error. A file that upstream writes lacks
/// the deprecated ports.
pub(in crate::config) fn complete_address(address: &mut String, port: u16) {
    if port == 0 || address.is_empty() {
        OFF.clone_into(address);
    } else {
        add_port(address, port);
    }
}

/// Adds a port to an address that has none. Any other text is unchanged, even if invalid.
fn add_port(address: &mut String, port: u16) {
    if let Some(ip) = parse_ip(address) {
        *address = SocketAddr::new(ip, port).to_string();
    }
}

fn or(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}

/// API version of the file, of kube-proxy and of this program.
const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";

/// Kind of the file, of kube-proxy and of this program.
const KIND: &str = "KubeProxyConfiguration";

/// Configuration file with its content at the time of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Path as given on the command line.
    pub path: PathBuf,
    /// Content, not decoded.
    pub text: String,
}

/// Error for a text that is not a configuration.
#[derive(Debug)]
pub(in crate::config) enum Unreadable {
    /// The text is not YAML or JSON, or another kind of object.
    Text(SyntaxError),
    /// The first field of a wrong type.
    Field(WrongType),
}

impl From<SyntaxError> for Unreadable {
    fn from(error: SyntaxError) -> Self {
        Self::Text(error)
    }
}

/// Parts of a file that have no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::config) struct IgnoredFields {
    pub unknown: Vec<UnknownField>,
    /// First repeated field, whose last value is used.
    pub repeated: Option<RepeatedKey>,
}

/// Decodes a file. Returns its configuration without defaults, and its unknown and repeated fields.
pub(in crate::config) fn read(
    text: &str,
) -> Result<(KubeProxyConfiguration, IgnoredFields), Unreadable> {
    let (mut tree, repeated) = read_tree(text)?;
    take_header(&mut tree)?;
    let (configuration, unknown) = decode(&tree).map_err(Unreadable::Field)?;
    Ok((configuration, IgnoredFields { unknown, repeated }))
}

/// Reads the first document of a text, as kube-proxy does, and finds its first repeated field.
fn read_tree(text: &str) -> Result<(Value, Option<RepeatedKey>), SyntaxError> {
    let read = DocumentText::new(1, text).read(false);
    if text.trim_start().starts_with('{') {
        let repeated = read.ok().flatten().and_then(|document| document.repeated);
        return Ok((serde_json::from_str(text)?, repeated));
    }
    let document = read?.map(|document| (document.value, document.repeated));
    Ok(document.unwrap_or_default())
}

/// Removes `apiVersion` and `kind`, which must be those of a configuration.
fn take_header(tree: &mut Value) -> Result<(), SyntaxError> {
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let fields = tree.as_object_mut();
        let found = match fields.and_then(|fields| fields.remove(field)) {
            Some(Value::String(found)) if found == expected => continue,
            Some(Value::String(found)) => format!("got `{found}`"),
            Some(_) => "got a value that is not a string".to_owned(),
            None => "but is missing".to_owned(),
        };
        let reason = format!("{field} must be `{expected}`, {found}");
        return Err(SyntaxError::new(None, reason));
    }
    Ok(())
}
