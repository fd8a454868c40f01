//! The manifests in `deploy/`, as a real API server judges them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests: failing loudly is the point"
)]

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::kube::ControlPlane;
use support::{Need, machine_has, objects};

#[test]
fn an_api_server_accepts_the_manifests() {
    if !machine_has(Need::Cluster) {
        return;
    }
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let mut files: Vec<PathBuf> = fs::read_dir(deploy.join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    assert!(files.len() > 12, "only {} examples", files.len());

    let control = ControlPlane::start();
    control.api().apply_all(&[
        objects::namespace("shop"),
        objects::namespace("kube-system"),
    ]);
    for file in files.iter().chain([&deploy.join("daemonset.yaml")]) {
        let documents = documents(file);
        control.api().apply_all(&documents);
        for document in &documents {
            let stored = control.api().read(document).unwrap();
            kept(file, document, &stored, "");
        }
    }
}

/// Every field of the file is in the stored object: a misspelt one would have been dropped.
fn kept(file: &Path, written: &Value, stored: &Value, at: &str) {
    match (written, stored) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, value) in fields {
                kept(file, value, &stored[name.as_str()], &format!("{at}.{name}"));
            }
        }
        (Value::Array(items), Value::Array(_)) => {
            for (index, item) in items.iter().enumerate() {
                kept(file, item, &stored[index], &format!("{at}[{index}]"));
            }
        }
        // The server stores an empty list as none.
        (Value::Array(items), Value::Null) if items.is_empty() => {}
        _ => assert_eq!(written, stored, "{}: {at}", file.display()),
    }
}

fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
