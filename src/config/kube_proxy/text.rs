//! Decoding of a configuration file, YAML or JSON, and encoding as YAML and for `/configz`.
//!
//! Decoding is strict if possible and lenient otherwise: unknown and repeated fields are reported
//! but do not make the file unusable, as it may be for a newer kube-proxy. The text becomes a JSON
//! tree first, as in Kubernetes, so that YAML has the types of JSON: `'5'` is a string.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `loadConfig` (v1.37)

use std::path::PathBuf;

use serde_json::{Value, json};

use super::KubeProxyConfiguration;
use super::fields::tree;
use crate::ingest::yaml::{DocumentText, RepeatedKey, SyntaxError};
use crate::ingest::{UnknownField, WrongType, decode};

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

impl KubeProxyConfiguration {
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
