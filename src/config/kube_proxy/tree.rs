//! Configurations as trees of JSON, in which fields are paths like `conntrack.maxPerCore`.
//!
//! Apart because it knows no field by name: what a configuration serializes to is the list of all
//! fields there are.

use serde_json::Value;

use super::KubeProxyConfiguration;

/// The fields of which users choose the keys.
const MAPS: &[&str] = &["featureGates"];

/// What every Kubernetes object has besides its fields.
const HEADER: &[&str] = &["apiVersion", "kind"];

/// The tree of a configuration, with `null` where nothing is set.
pub(super) fn tree(configuration: &KubeProxyConfiguration) -> Value {
    // Every key is a string and no number is infinite, so that nothing can fail.
    serde_json::to_value(configuration).unwrap_or_default()
}

/// The paths of all fields that are no sections; those that are left out while empty, too.
pub(in crate::config) fn leaves() -> Vec<String> {
    let mut all = paths(&tree(&KubeProxyConfiguration::default()), "");
    all.extend(WHEN_SET.iter().map(|&path| path.to_owned()));
    all
}

/// Fields that are not written unless they are set.
const WHEN_SET: &[&str] = &[
    "featureGates",
    "logging.vmodule",
    "logging.options.text.splitStream",
    "logging.options.json.splitStream",
    "windowsRunAsService",
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

/// Which fields differ between two configurations.
pub(in crate::config) fn differing(
    a: &KubeProxyConfiguration,
    b: &KubeProxyConfiguration,
) -> Vec<String> {
    let (a, b) = (tree(a), tree(b));
    let mut all = leaves();
    all.retain(|path| at(&a, path) != at(&b, path));
    all
}

fn at<'a>(tree: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(tree, |tree, name| tree.get(name))
}

/// The fields in `tree` that are of other types than they should be, and why. Each is tried alone,
/// so that all of them are found. A list could pass for a section, field by field.
pub(super) fn misfits(tree: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in paths(tree, "") {
        let Some(value) = at(tree, &path) else {
            continue;
        };
        if !value.is_object() && !value.is_null() && is_section(&path) {
            found.push((path, format!("{value} is no section with fields")));
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

/// The paths in `tree` that are no fields.
pub(super) fn unknown(tree: &Value) -> Vec<String> {
    let known = leaves();
    let is_known =
        |path: &String| HEADER.contains(&path.as_str()) || known.contains(path) || is_section(path);
    let mut found = paths(tree, "");
    found.extend(inside_vmodule(tree));
    found.retain(|path| !is_known(path));
    found
}

/// Whether there are fields below `path`.
fn is_section(path: &str) -> bool {
    let is_below = |leaf: &String| {
        leaf.strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    leaves().iter().any(is_below)
}

/// The one list of objects.
fn inside_vmodule(tree: &Value) -> Vec<String> {
    const KNOWN: &[&str] = &["filePattern", "verbosity"];
    let entries = at(tree, "logging.vmodule").and_then(Value::as_array);
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
