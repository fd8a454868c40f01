//! `diff` between two states of a repository, in which nothing is that an API server or a
//! controller sets, and its exit code when its output is closed early.

#![allow(clippy::unwrap_used, clippy::panic, reason = "failing is a test's job")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Manifests that [`golden`] compares with, and the expected texts.
fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/diff");
    folder.join(name)
}

#[expect(clippy::disallowed_methods, reason = "this test runs the program")]
fn diff(before: &Path, after: &Path, more: &[&str], stdout: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deltaproxy"))
        .args(["diff", "--hostname-override", "node-a", "--from-manifests"])
        .arg(before)
        .arg("--manifests")
        .arg(after)
        .args(more)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .env("RUST_LOG", "error")
        .env_remove("KUBECTL_EXTERNAL_DIFF")
        .output()
        .unwrap()
}

/// Returns the text and the exit code.
#[track_caller]
fn text(before: &Path, after: &Path, more: &[&str]) -> (String, i32) {
    let output = diff(before, after, more, Stdio::piped());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let heading = format!(
        "live: `{}`\ndesired: `{}`\n",
        before.display(),
        after.display()
    );
    let text = text
        .strip_prefix(&heading)
        .unwrap_or_else(|| panic!("{text}"));
    (text.to_owned(), output.status.code().unwrap())
}

#[test]
fn a_change_in_a_repository_is_reviewed() {
    let (before, after) = (golden("git-before.yaml"), golden("git-after.yaml"));
    let (said, code) = text(&before, &after, &[]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(golden("git.txt"), &said).unwrap();
    }
    assert_eq!(said, fs::read_to_string(golden("git.txt")).unwrap());
    assert_eq!(code, 1);
    let (said, code) = text(&before, &before, &["--strict"]);
    assert!(said.ends_with("\n\nno differences\n"), "{said}");
    assert_eq!(code, 0);
    // The selector of another Service is not that of this one.
    let (said, _) = text(&before, &after, &["web"]);
    assert!(
        said.ends_with("; 1 service port not selected; 2 fields not selected\n"),
        "{said}"
    );
    assert!(!said.contains("publishNotReadyAddresses"), "{said}");
}

#[test]
fn fields_without_effect_on_rules_count_with_strict() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let headless = "kind: Service\napiVersion: v1\nmetadata: {name: db}\nspec: {clusterIP: None}\n";
    fs::write(&before, headless).unwrap();
    fs::write(&after, headless.replace("db", "cache")).unwrap();
    let listed = "\
fields without effect on the rules of their Services
  Service default/cache: metadata.name none -> cache
  Service default/db: metadata.name db -> none

0 service ports change, 0 added, 0 removed; 2 fields without effect; 0 chains
";
    assert_eq!(text(&before, &after, &[]), (listed.to_owned(), 0));
    assert_eq!(text(&before, &after, &["--strict"]).1, 1);
}

/// Two names of one hash would be allocated in another order; no other Service changes here.
#[test]
fn a_new_service_does_not_change_the_values_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let services = |range: std::ops::Range<u32>| -> String {
        let one = |number| {
            format!(
                "---\nkind: Service\napiVersion: v1\nmetadata: {{name: s{number}}}\n\
                 spec: {{type: LoadBalancer, ports: [{{port: 80}}]}}\n"
            )
        };
        range.map(one).collect()
    };
    fs::write(&before, services(20..40)).unwrap();
    fs::write(&after, services(0..40)).unwrap();
    // Ranges so small that names collide.
    let ranges = [
        "--manifests-node-port-range=30000-30063",
        "--manifests-service-cidr=10.96.0.0/26,fd00:10:96::/122",
        "--manifests-load-balancer-cidr=198.18.0.0/26,2001:2::/122",
    ];
    let (said, _) = text(&before, &after, &ranges);
    let summary = said.lines().last().unwrap();
    assert!(
        summary.starts_with("0 service ports change, 20 added, 0 removed; "),
        "{said}"
    );
}

/// The result is known before anything is printed, so it does not depend on the reader.
#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let (before, after) = (golden("git-before.yaml"), golden("git-after.yaml"));
    for (after, code) in [(&before, 0), (&after, 1)] {
        for format in ["text", "json", "unified"] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let output = diff(&before, after, &["-o", format], writer.into());
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            assert_eq!(output.status.code(), Some(code), "{format}");
        }
    }
}
