//! The text of a configuration file, YAML or JSON: strictly if possible, leniently if not.
//!
//! Apart from the [`sections`](super::sections) because a file that was written for a newer
//! kube-proxy, or by hand, is still good for all the rest that it says. The text becomes a tree
//! first, as Kubernetes does it: then YAML has the types of JSON, and `'5'` is no number.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `loadConfig` (v1.36)

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

use super::KubeProxyConfiguration;
use super::tree::{misfits, unknown};

/// What both programs call their file.
pub(super) const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";

/// See [`API_VERSION`].
pub(super) const KIND: &str = "KubeProxyConfiguration";

/// Why a text is no configuration.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) enum Unreadable {
    /// It is neither YAML nor JSON, or something else.
    Text {
        /// Counted from 1, if it is about one.
        line: Option<u64>,
        /// In one line.
        reason: String,
    },
    /// These fields are of other types: paths and reasons.
    Fields(Vec<(String, String)>),
}

/// What a file says, without defaults, and what in it was overlooked.
pub(in crate::config) fn read(
    text: &str,
) -> Result<(KubeProxyConfiguration, Option<String>), Unreadable> {
    let syntax = if text.trim_start().starts_with('{') {
        Syntax::Json
    } else {
        Syntax::Yaml
    };
    let tree = syntax.tree(text)?;
    check_header(&tree)?;
    let misfits = misfits(&tree);
    if !misfits.is_empty() {
        return Err(Unreadable::Fields(misfits));
    }
    let overlooked = overlooked(&tree, syntax, text);
    // Each field fits by itself, so that all of them do.
    let configuration = serde_json::from_value(tree).map_err(|error| Unreadable::json(&error))?;
    Ok((configuration, overlooked))
}

fn overlooked(tree: &Value, syntax: Syntax, text: &str) -> Option<String> {
    let mut notes = Vec::new();
    let unknown = unknown(tree);
    if !unknown.is_empty() {
        notes.push(format!("unknown fields {}", quoted(&unknown)));
    }
    if let Err(Unreadable::Text { line, reason }) = syntax.refuse_duplicates(text) {
        let line = line
            .map(|line| format!("line {line}: "))
            .unwrap_or_default();
        notes.push(format!("{line}{reason}, of which the last counts"));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Names between backticks.
pub(in crate::config) fn quoted(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

fn check_header(tree: &Value) -> Result<(), Unreadable> {
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let found = match tree.get(field) {
            Some(Value::String(found)) if found == expected => continue,
            Some(Value::String(found)) => format!("`{found}`"),
            Some(_) => "no string".to_owned(),
            None => "missing".to_owned(),
        };
        let reason = format!("{field} is {found}; kube-proxy's file has `{field}: {expected}`");
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
    /// The last of two fields of one name counts.
    fn tree(self, text: &str) -> Result<Value, Unreadable> {
        match self {
            Self::Json => serde_json::from_str(text).map_err(|error| Unreadable::json(&error)),
            Self::Yaml => yaml(text, DuplicateKeyPolicy::LastWins),
        }
    }

    /// An error if a name occurs twice; in JSON, if it is the name of a field.
    fn refuse_duplicates(self, text: &str) -> Result<(), Unreadable> {
        match self {
            Self::Json => serde_json::from_str::<KubeProxyConfiguration>(text)
                .map(drop)
                .map_err(|error| Unreadable::json(&error)),
            Self::Yaml => yaml(text, DuplicateKeyPolicy::Error).map(drop),
        }
    }
}

/// The first document; kube-proxy does not look further, either.
fn yaml(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, Unreadable> {
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        // `010` is 8 to Go's reader of YAML.
        legacy_octal_numbers: true,
    };
    let mut reader = text.as_bytes();
    let first = serde_saphyr::read_with_options(&mut reader, options).next();
    let first = first.transpose().map_err(|error| Unreadable::yaml(&error));
    first.map(|tree| tree.map(with_whole_numbers).unwrap_or_default())
}

/// YAML has one kind of number: `5.0` is as good as `5`.
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

    /// The first line of a message, without the place, which is told apart.
    fn text(line: Option<u64>, message: &str) -> Self {
        let first = message.lines().next().unwrap_or_default();
        let reason = first
            .rsplit_once(" at line ")
            .map_or(first, |(reason, _)| reason);
        // What the library advises its caller is no use to whoever wrote the file.
        let reason = reason
            .split_once(", set DuplicateKeyPolicy")
            .map_or(reason, |(what, _)| what);
        let reason = reason.trim_end_matches(':').to_owned();
        Self::Text { line, reason }
    }
}
