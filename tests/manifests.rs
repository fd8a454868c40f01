//! The manifests in `deploy/`, as a real API server judges them; and invalid ones, as commands
//! report them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::kube::ControlPlane;
use crate::support::program::{self, PROGRAM, Ran};
use crate::support::{needs, objects};
use serde_json::Value;

#[test]
fn an_api_server_accepts_the_manifests() {
    needs!(Cluster);
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
    for file in files
        .iter()
        .chain([&deploy.join("rendered/kustomize-least-privilege.yaml")])
    {
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

/// Namespaced, as others in the folder would be.
const GOOD: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: good}\nspec:\n  \
                    clusterIP: 10.96.0.10\n  ports:\n  - port: 80\n";

/// Runs a command on the manifests in `folder`. `diff` compares them with themselves, and `explain`
/// is asked for the Service that is in order.
fn run(command: &str, folder: &Path, flags: &[&str]) -> Ran {
    let mut program = program::command(PROGRAM, &[command, "--hostname-override=node-a"]);
    program.arg("--manifests").arg(folder).args(flags);
    if command == "diff" {
        program.arg("--from-manifests").arg(folder);
    } else if command == "explain" {
        program.arg("10.96.0.10:80");
    }
    Ran::of(&mut program)
}

/// Runs a command that reports so many problems, and returns these. All but `diff` print the
/// Service that is in order, if there is one.
#[track_caller]
fn reported(command: &str, folder: &Path, has_good: bool, count: usize) -> Vec<String> {
    let ran = run(command, folder, &[]);
    assert_eq!(ran.code, Some(2), "{command}: {}", ran.stderr);
    let (is_printed, is_wanted) = (ran.stdout.contains("good"), has_good && command != "diff");
    assert_eq!(is_printed, is_wanted, "{command}: {ran:#?}");
    assert!(has_good || ran.stdout.is_empty(), "{command}: {ran:#?}");
    let errors = errors(folder, &ran.stderr);
    assert_eq!(errors.len(), count, "{command}: {ran:#?}");
    errors
}

/// Lines of errors, without the folder.
fn errors(folder: &Path, stderr: &str) -> Vec<String> {
    let folder = format!("{}/", folder.display());
    let lines = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("error: "));
    lines.map(|line| line.replace(&folder, "")).collect()
}

const COMMANDS: [&str; 4] = ["diff", "render", "services", "explain"];

#[test]
fn invalid_objects_are_errors_unless_lenient() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bad = "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec:\n  type: LoadBalnacer\n  \
               ports:\n  - port: eighty\n";
    fs::write(folder.join("a.yaml"), format!("{GOOD}---\n{bad}")).unwrap();
    for command in COMMANDS {
        // Each once, though `diff` reads both sides.
        let error = "`a.yaml` line 15: Service `default/bad`: spec.ports[0].port: invalid type: \
                     string \"eighty\", expected i32";
        assert_eq!(reported(command, folder, true, 1), [error], "{command}");
        let Ran { code, stderr, .. } = run(command, folder, &["--lenient"]);
        let errors = errors(folder, &stderr);
        if command == "diff" {
            // An object that cannot be decoded would look like a removed one.
            let error =
                "`a.yaml` line 15: Service `default/bad`: spec.ports[0].port: invalid type: ";
            assert!(
                errors.len() == 1 && errors[0].starts_with(error),
                "{stderr}"
            );
        }
        let expected = i32::from(command == "diff") * 2;
        assert_eq!(code, Some(expected), "{command}: {stderr}");
        assert_eq!(errors.is_empty(), command != "diff", "{command}: {stderr}");
    }
}

#[test]
fn all_unusable_files_are_named_and_others_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.yaml"), "spec: {a: {{ .Values.a }}}\n").unwrap();
    fs::write(folder.join("b.yaml"), GOOD).unwrap();
    fs::write(folder.join("c.yaml"), "a: 1\n b: 2\n").unwrap();
    for command in COMMANDS {
        let errors = reported(command, folder, true, 2);
        assert!(errors[0].starts_with("`a.yaml` line 1: "), "{}", errors[0]);
        assert!(errors[0].contains("Helm template"), "{}", errors[0]);
        assert!(errors[1].starts_with("`c.yaml` line 2: "), "{}", errors[1]);
    }
    // Without any other, nothing is printed.
    fs::remove_file(folder.join("b.yaml")).unwrap();
    for command in COMMANDS {
        reported(command, folder, false, 2);
    }
}
