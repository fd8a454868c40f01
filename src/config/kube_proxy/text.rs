//! Decoding of a configuration file, YAML or JSON, and encoding as YAML and for `/configz`.
//!
//! Decoding is strict if possible and lenient otherwise: unknown and repeated fields are reported
//! but do not make the file unusable, as it may be for a newer kube-proxy. The text becomes a JSON
//! tree first, as in Kubernetes, so that YAML has the types of JSON: `'5'` is a string.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `loadConfig` (v1.37)

use std::marker::PhantomData;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::KubeProxyConfiguration;
use super::fields::{mistyped, tree, unknown};
use crate::ingest::yaml::DocumentText;

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
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) enum Unreadable {
    /// The text is not YAML or JSON, or another kind of object.
    Text {
        /// Line of the error, from 1, if it is known.
        line: Option<u64>,
        /// Error on one line.
        reason: String,
    },
    /// Fields of the wrong type: their paths and errors.
    Fields(Vec<(String, String)>),
}

/// Parts of a file that have no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::config) struct IgnoredFields {
    /// Paths of unknown fields.
    pub unknown: Vec<String>,
    /// Line and name of the first repeated field, whose last value is used.
    pub repeated: Option<String>,
}

/// Decodes a file. Returns its configuration without defaults, and its unknown and repeated fields.
pub(in crate::config) fn read(
    text: &str,
) -> Result<(KubeProxyConfiguration, IgnoredFields), Unreadable> {
    let tree: Value = decode(text)?;
    check_header(&tree)?;
    let mistyped = mistyped(&tree);
    if !mistyped.is_empty() {
        return Err(Unreadable::Fields(mistyped));
    }
    let ignored = IgnoredFields {
        unknown: unknown(&tree),
        repeated: repeated(text),
    };
    // Each field was decoded alone above, so this fails for none.
    let configuration = serde_json::from_value(tree).map_err(|error| json_error(&error))?;
    Ok((configuration, ignored))
}

/// Decodes the first document of a text, as kube-proxy does. `T` gets all fields of one name.
fn decode<T: DeserializeOwned + Default>(text: &str) -> Result<T, Unreadable> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| json_error(&error));
    }
    let read = DocumentText::whole(text).read(|_| PhantomData::<T>);
    read.map(Option::unwrap_or_default)
        .map_err(|error| Unreadable::Text {
            line: error.line,
            reason: error.reason,
        })
}

/// Returns line and name of the first repeated field: it is an error of the configuration's type,
/// but not of a tree.
fn repeated(text: &str) -> Option<String> {
    let Err(Unreadable::Text { line, reason }) = decode::<KubeProxyConfiguration>(text) else {
        return None;
    };
    let line = line.map_or_else(String::new, |line| format!("line {line}: "));
    Some(format!("{line}{reason}, last value used"))
}

fn check_header(tree: &Value) -> Result<(), Unreadable> {
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let found = match tree.get(field) {
            Some(Value::String(found)) if found == expected => continue,
            Some(Value::String(found)) => format!("got `{found}`"),
            Some(_) => "got a value that is not a string".to_owned(),
            None => "but is missing".to_owned(),
        };
        let reason = format!("{field} must be `{expected}`, {found}");
        return Err(Unreadable::Text { line: None, reason });
    }
    Ok(())
}

/// Returns the error of JSON without its position, which is a field of its own.
fn json_error(error: &serde_json::Error) -> Unreadable {
    let line = u64::try_from(error.line()).ok().filter(|&line| line > 0);
    let reason = error.to_string();
    let reason = reason
        .rsplit_once(" at line ")
        .map_or(&*reason, |(reason, _)| reason)
        .to_owned();
    Unreadable::Text { line, reason }
}

/// Content of `/configz`: a configuration by its API group, with fields in the order of upstream's
/// types.
///
/// Upstream: staging/src/k8s.io/component-base/configz/configz.go (v1.37)
#[derive(Serialize)]
struct Configz<'a> {
    #[serde(rename = "kubeproxy.config.k8s.io")]
    kube_proxy: ConfigObject<'a>,
}

/// Configuration with the header of a Kubernetes object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigObject<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(flatten)]
    configuration: &'a KubeProxyConfiguration,
}

impl KubeProxyConfiguration {
    /// Encodes the configuration as the content of `/configz`.
    pub fn to_configz(&self) -> String {
        let kube_proxy = ConfigObject {
            kind: KIND,
            api_version: API_VERSION,
            configuration: self,
        };
        // Cannot fail: every key is a string and no number is infinite.
        serde_json::to_string(&Configz { kube_proxy }).unwrap_or_default()
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
