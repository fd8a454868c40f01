//! Documents of the program against their JSON Schemas in `deploy/docs/schema`.
//!
//! The schemas are written by hand. These tests compare them with what the program prints.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::program::{PROGRAM, Ran, command};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn schema(name: &str) -> Value {
    let path = root().join(format!("deploy/docs/schema/{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Checks values against a schema, as far as the schemas of this project go. Unlike JSON Schema, it
/// rejects fields that are not described, which users may add to no document.
struct Validator {
    root: Value,
}

impl Validator {
    /// Returns the fields that the schema describes, or the first problem.
    fn fields(&self, schema: &Value, value: &Value) -> Result<BTreeSet<String>, String> {
        let mut known = BTreeSet::new();
        for (keyword, rule) in schema.as_object().unwrap() {
            let is_valid = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" | "format" => true,
                "$ref" => {
                    let pointer = rule.as_str().unwrap().trim_start_matches('#');
                    known.extend(self.fields(self.root.pointer(pointer).unwrap(), value)?);
                    true
                }
                "type" => types(rule).any(|name| is_type(value, name)),
                "enum" => rule.as_array().unwrap().contains(value),
                "const" => rule == value,
                "minimum" => value.is_null() || value.as_u64() >= rule.as_u64(),
                "maximum" => value.is_null() || value.as_u64() <= rule.as_u64(),
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.check(rule, item)?;
                    }
                    true
                }
                "required" => rule.as_array().unwrap().iter().all(|name| {
                    let name = name.as_str().unwrap();
                    value.get(name).is_some()
                }),
                "properties" => {
                    for (name, schema) in rule.as_object().unwrap() {
                        known.insert(name.clone());
                        value
                            .get(name)
                            .map_or(Ok(()), |one| self.check(schema, one))?;
                    }
                    true
                }
                "additionalProperties" => {
                    for (name, one) in value.as_object().into_iter().flatten() {
                        known.insert(name.clone());
                        self.check(rule, one)?;
                    }
                    true
                }
                "anyOf" | "oneOf" => {
                    let branches = rule.as_array().unwrap().iter();
                    let found = branches.map(|branch| self.fields(branch, value));
                    let valid: Vec<_> = found.filter_map(Result::ok).collect();
                    let count = valid.len();
                    known.extend(valid.into_iter().flatten());
                    count == 1 || (count > 1 && keyword == "anyOf")
                }
                other => return Err(format!("unknown keyword {other}")),
            };
            if !is_valid {
                return Err(format!("{keyword}: {rule}: {value}"));
            }
        }
        Ok(known)
    }

    fn check(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let known = self.fields(schema, value)?;
        let mut fields = value
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::keys);
        match fields.find(|name| !known.contains(*name)) {
            Some(name) => Err(format!("`{name}` is not described: {value}")),
            None => Ok(()),
        }
    }
}

fn types(rule: &Value) -> impl Iterator<Item = &str> {
    let one = rule.as_str().into_iter();
    one.chain(
        rule.as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str),
    )
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[track_caller]
pub(crate) fn assert_valid(name: &str, document: &str) {
    let root = schema(name);
    let document = serde_json::from_str(document).unwrap();
    let validator = Validator { root: root.clone() };
    assert_eq!(validator.check(&root, &document), Ok(()), "{name}");
}

fn printed(folder: &Path, args: &[&str]) -> String {
    Ran::of(command(PROGRAM, args).current_dir(folder)).stdout
}

#[test]
fn services_prints_what_its_schema_describes() {
    let dumps = ["golden/restore-v4-full.txt", "golden/restore-v6-full.txt"];
    let dumps = dumps.map(|dump| format!("--from-save=tests/{dump}"));
    for source in dumps.iter().map(String::as_str).chain([
        "--manifests=deploy/examples",
        "--manifests=tests/explain/conflict.yaml",
        "--from-save=tests/explain/old.save",
        "--from-save=tests/explain/v6.save",
    ]) {
        assert_valid(
            "services",
            &printed(&root(), &["services", "-o", "json", source]),
        );
    }
}

/// Counters are described as well: those of a dump.
#[test]
fn services_prints_counters_as_its_schema_describes() {
    let rules = fs::read_to_string(root().join("tests/golden/restore-v4-full.txt")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump");
    fs::write(&dump, rules.replace("\n-A ", "\n[3:180] -A ")).unwrap();
    let source = format!("--from-save={}", dump.display());
    let document = printed(&root(), &["services", "--counters", "-o", "json", &source]);
    assert!(document.contains("\"connections\": 3"), "{document}");
    assert!(document.contains("\"observedRatio\""), "{document}");
    assert_valid("services", &document);
}

#[test]
fn diff_prints_what_its_schema_describes() {
    let golden = root().join("tests/golden/diff");
    let change = ["--from-manifests=before.yaml", "--manifests=after.yaml"];
    let args = [
        &["diff", "-o=json", "--hostname-override=node-a"],
        &change[..],
    ]
    .concat();
    assert_valid("diff", &printed(&golden, &args));
    // Rules of other settings have effects that changes of objects do not have.
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump");
    let manifests = golden.join("before.yaml");
    let manifests = format!("--manifests={}", manifests.display());
    let render = ["render", &manifests, "--cluster-cidr=10.4.0.0/14"];
    let rules = printed(&golden, &render);
    fs::write(
        &dump,
        format!("# Generated by iptables-save v1.8.9\n{rules}"),
    )
    .unwrap();
    let dump = format!("--from-save={}", dump.display());
    for setting in ["--cluster-cidr=10.8.0.0/14", "--masquerade-all"] {
        let args = ["diff", "-o=json", &dump, &manifests, setting];
        let document = printed(&golden, &args);
        assert!(document.contains("\"masquerade\""), "{document}");
        assert_valid("diff", &document);
    }
}

#[test]
fn explain_prints_what_its_schema_describes() {
    let folder = root().join("tests/explain");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "txt") {
            continue;
        }
        let session = fs::read_to_string(&path).unwrap();
        for line in session.lines() {
            let Some(line) = line.strip_prefix("$ deltaproxy explain ") else {
                continue;
            };
            let words = line.split(" | ").next().unwrap().split_whitespace();
            let words: Vec<&str> = words
                .filter(|word| !["-v", "--verbose", "--output", "json"].contains(word))
                .collect();
            if words.iter().any(|word| word.starts_with("--graph")) {
                continue;
            }
            let document = printed(
                &folder,
                &[&["explain", "--output=json"], &words[..]].concat(),
            );
            // Some lines of the sessions are errors.
            if !document.is_empty() {
                assert_valid("explain", &document);
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn other_documents_are_invalid() {
    let root = schema("services");
    let validator = Validator { root: root.clone() };
    let good = json!({
        "apiVersion": "deltaproxy/v1",
        "servicePorts": [],
        "staleChains": [{"family": "IPv4", "chain": "KUBE-SVC-X"}],
        "missingJumps": [],
        "brokenChains": [],
        "frontendConflicts": [],
        "unknown": [],
        "familiesWithoutNat": [],
        "familiesWithLegacyRules": [],
        "source": "the desired rules",
        "observedAt": null,
    });
    assert_eq!(validator.check(&root, &good), Ok(()));
    for (pointer, wrong) in [
        ("/servicePorts", Value::Null),
        ("/staleChains/0/family", json!("IPv5")),
        ("/staleChains/0/chain", json!(1)),
        ("/staleChains/0", json!({"family": "IPv4"})),
        (
            "/staleChains/0",
            json!({"family": "IPv4", "chain": "X", "more": 1}),
        ),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = wrong;
        assert!(validator.check(&root, &bad).is_err(), "{bad}");
    }
}
