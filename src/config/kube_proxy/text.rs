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

use serde::Serialize;
use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

use super::KubeProxyConfiguration;
use super::fields::{mistyped, tree, unknown};

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
    let syntax = if text.trim_start().starts_with('{') {
        Syntax::Json
    } else {
        Syntax::Yaml
    };
    let tree = syntax.tree(text)?;
    check_header(&tree)?;
    let mistyped = mistyped(&tree);
    if !mistyped.is_empty() {
        return Err(Unreadable::Fields(mistyped));
    }
    let ignored = IgnoredFields {
        unknown: unknown(&tree),
        repeated: repeated(syntax, text),
    };
    // Each field was decoded alone above, so this fails for none.
    let configuration = serde_json::from_value(tree).map_err(|error| Unreadable::json(&error))?;
    Ok((configuration, ignored))
}

fn repeated(syntax: Syntax, text: &str) -> Option<String> {
    match syntax.reject_duplicates(text) {
        Err(Unreadable::Text { line, reason }) => {
            let line = line.map(|line| format!("line {line}: "));
            Some(format!(
                "{}{reason}, last value used",
                line.unwrap_or_default()
            ))
        }
        _ => None,
    }
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

#[derive(Debug, Clone, Copy)]
enum Syntax {
    Json,
    Yaml,
}

impl Syntax {
    /// Parses a text; the last of several fields of one name wins.
    fn tree(self, text: &str) -> Result<Value, Unreadable> {
        match self {
            Self::Json => serde_json::from_str(text).map_err(|error| Unreadable::json(&error)),
            Self::Yaml => yaml(text, DuplicateKeyPolicy::LastWins),
        }
    }

    /// Returns an error if a name occurs twice. In JSON only names of fields are checked.
    fn reject_duplicates(self, text: &str) -> Result<(), Unreadable> {
        match self {
            Self::Json => serde_json::from_str::<KubeProxyConfiguration>(text)
                .map(drop)
                .map_err(|error| Unreadable::json(&error)),
            Self::Yaml => yaml(text, DuplicateKeyPolicy::Error).map(drop),
        }
    }
}

/// Parses the first document. As in kube-proxy, further documents are ignored.
fn yaml(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, Unreadable> {
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        // As in Go's YAML parser, `010` is 8.
        legacy_octal_numbers: true,
    };
    let mut reader = text.as_bytes();
    let first = serde_saphyr::read_with_options(&mut reader, options).next();
    let first = first.transpose().map_err(|error| Unreadable::yaml(&error));
    first.map(|tree| tree.map(with_whole_numbers).unwrap_or_default())
}

/// Turns whole floats into integers, because YAML accepts `5.0` for an integer.
fn with_whole_numbers(tree: Value) -> Value {
    match tree {
        Value::Number(number) => match number.as_f64().map(|float| float.to_string().parse()) {
            Some(Ok(whole)) if number.is_f64() => Value::Number(i64::into(whole)),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(name, value)| (name, with_whole_numbers(value)))
                .collect()
        }
        other => other,
    }
}

impl Unreadable {
    fn json(error: &serde_json::Error) -> Self {
        let line = u64::try_from(error.line()).ok().filter(|&line| line > 0);
        Self::text(line, &error.to_string())
    }

    fn yaml(error: &serde_saphyr::Error) -> Self {
        let line = error.location().map(|location| location.line());
        Self::text(line, &error.without_snippet().to_string())
    }

    /// Keeps the first line of a message without its position, which is a field of its own.
    fn text(line: Option<u64>, message: &str) -> Self {
        let first = message.lines().next().unwrap_or_default();
        let reason = first
            .rsplit_once(" at line ")
            .map_or(first, |(reason, _)| reason);
        // The library's advice is for callers of its API, not for authors of files.
        let reason = reason
            .split_once(", set DuplicateKeyPolicy")
            .map_or(reason, |(what, _)| what);
        let reason = reason.trim_end_matches(':').to_owned();
        Self::Text { line, reason }
    }
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
