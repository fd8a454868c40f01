//! `deploy/quickstart.sh` demonstrates what it says, and removes everything, also after a failure.

use std::process::{Command, Stdio};

use crate::support::needs;
use crate::support::process::run;
use crate::support::program::Ran;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/quickstart.sh");

/// Runs the script with a program in place of a build. Returns what it printed, and the names of
/// its namespaces that it left behind.
fn quickstart(program: &str) -> (Ran, Vec<String>) {
    let mut command = Command::new(SCRIPT);
    command.env("DELTAPROXY", program);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let tag = format!("dpquick-{}-", child.id());
    let output = Ran::ended(child.wait_with_output().unwrap());
    let namespaces = run(Command::new("ip").args(["netns", "list"]));
    let left = namespaces.lines().filter(|line| line.starts_with(&tag));
    let left = left.map(str::to_owned).collect();
    (output, left)
}

/// Returns the text between the titles of two steps.
fn step(text: &str, number: u32) -> &str {
    let (_, rest) = text.split_once(&format!("\n{number}. ")).unwrap();
    let end = rest.find(&format!("\n{}. ", number + 1));
    end.map_or(rest, |end| &rest[..end])
}

#[test]
fn the_quickstart_demonstrates_and_removes_everything() {
    needs!(Kernel);
    let (output, left) = quickstart(env!("CARGO_BIN_EXE_deltaproxy"));
    let text = output.success();
    assert_eq!(left, Vec::<String>::new());

    let requests = step(&text, 4);
    assert!(requests.contains("hello from storefront-1"), "{requests}");
    assert!(!requests.contains("no answer"), "{requests}");
    // curl words it differently from version to version; 7 is its code for it.
    assert!(requests.contains("curl: (7) "), "{requests}");
    let removed = step(&text, 5);
    assert!(removed.contains("hello from storefront-1"), "{removed}");
    assert!(!removed.contains("storefront-13"), "{removed}");
    let payload = step(&text, 6);
    assert!(payload.contains("-X KUBE-SEP-"), "{payload}");
    assert!(payload.contains("scope=\"partial\""), "{payload}");
    let metrics = step(&text, 7);
    assert!(metrics.contains("kubeproxy_sync_partial_"), "{metrics}");
}

#[test]
fn a_failed_quickstart_removes_everything() {
    needs!(Kernel);
    let (output, left) = quickstart("/bin/false");
    output.fails(1, &["quickstart.sh: timed out waiting for: "]);
    assert_eq!(left, Vec::<String>::new());
}
