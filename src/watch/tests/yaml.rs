//! YAML that is odd but valid, as kubectl reads it.
//!
//! `tests/yaml` has the files, and the objects that kubectl reads from each of them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::ingest::ServiceObject;
use crate::watch::manifests::{ManifestOptions, Manifests, Validation, load};

fn read(path: &Path) -> Manifests {
    let options = ManifestOptions::new("here".into());
    load(path, &options, Validation::Lenient).unwrap_or_else(|error| panic!("{error}"))
}

fn services(manifests: &Manifests) -> Vec<&ServiceObject> {
    let services = manifests.services.iter();
    services.map(|service| &**service).collect()
}

#[test]
fn every_file_is_read_as_kubectl_reads_it() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/yaml");
    let judged = fs::read(directory.join("judged.json")).unwrap();
    let judged: Map<String, Value> = serde_json::from_slice(&judged).unwrap();
    let files = fs::read_dir(&directory).unwrap();
    let files = files.filter(|file| {
        let path = file.as_ref().unwrap().path();
        path.extension().is_some_and(|one| one == "yaml")
    });
    assert_eq!(files.count(), judged.len());
    assert!(judged.len() > 40, "{}", judged.len());
    let scratch = tempfile::tempdir().unwrap();
    for (name, objects) in &judged {
        assert!(objects.is_array(), "kubectl rejects {name}");
        let list = serde_json::json!({"kind": "List", "apiVersion": "v1", "items": objects});
        let expected = scratch.path().join("judged.json");
        fs::write(&expected, list.to_string()).unwrap();
        let (found, expected) = (read(&directory.join(name)), read(&expected));
        assert_eq!(services(&found), services(&expected), "{name}");
        let skipped = |manifests: &Manifests| (manifests.ignored, manifests.notes.len());
        assert_eq!(skipped(&found), skipped(&expected), "{name}");
    }
}

/// As of licenses and generators, at any column.
#[test]
fn many_comments_are_read() {
    let comments = |indentation: &str| {
        let lines = (0..1_000).map(|number| format!("{indentation}# {number}\n"));
        lines.collect::<String>()
    };
    let service = |left: &str, deep: &str| {
        format!(
            "{left}apiVersion: v1\nkind: Service\nmetadata:\n{deep}  name: web\nspec:\n{left}\
             {deep}  ports:\n{deep}  - port: 80\n{left}  - port: 81\n{deep}    name: b\n"
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let [with, without] = ["with.yaml", "without.yaml"].map(|name| directory.path().join(name));
    fs::write(&with, service(&comments(""), &comments("    "))).unwrap();
    fs::write(&without, service("", "")).unwrap();
    assert_eq!(services(&read(&with)), services(&read(&without)));
}

#[test]
fn large_files_are_read() {
    let mut text = String::from("apiVersion: v1\nkind: List\nitems:\n");
    for number in 0..30_000 {
        write!(
            text,
            "- apiVersion: v1\n  kind: Service\n  metadata:\n    name: svc-{number}\n  spec:\n    \
             ports:\n    - {{name: web, port: 80}}\n"
        )
        .unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.yaml"), text).unwrap();
    assert_eq!(read(directory.path()).services.len(), 30_000);
}
