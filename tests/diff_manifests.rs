//! `diff` between two states of a repository, in which nothing is that an API server or a
//! controller sets, and its exit code when its output is closed early.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::program::{self, PROGRAM, Ran};

/// Manifests that [`golden`] compares with, and the expected texts.
fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/diff");
    folder.join(name)
}

fn diff(before: &Path, after: &Path, more: &[&str]) -> Command {
    let mut command = program::command(PROGRAM, &["diff", "--hostname-override", "node-a"]);
    command.arg("--from-manifests").arg(before);
    command.arg("--manifests").arg(after).args(more);
    command.env("RUST_LOG", "error");
    command
}

/// Returns the text and the exit code.
#[track_caller]
fn text(before: &Path, after: &Path, more: &[&str]) -> (String, i32) {
    let ran = Ran::ended(diff(before, after, more).output().unwrap());
    assert_eq!(ran.stderr, "");
    let heading = format!(
        "live: `{}`\ndesired: `{}`\n",
        before.display(),
        after.display()
    );
    assert_eq!(ran.stdout.matches(&heading).count(), 1, "{ran:#?}");
    (ran.stdout.replace(&heading, ""), ran.code.unwrap())
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
    assert!(said.starts_with("no differences\n"), "{said}");
    assert_eq!(code, 0);
    let (said, _) = text(&before, &after, &["web"]);
    assert!(said.contains("; 1 service port not selected\n"), "{said}");
}

#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let (before, after) = (golden("git-before.yaml"), golden("git-after.yaml"));
    for (after, code) in [(&before, 0), (&after, 1)] {
        for format in ["text", "json", "unified", "markdown"] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut diff = diff(&before, after, &["-o", format]);
            let ran = Ran::ended(diff.stdout(writer).stderr(Stdio::piped()).output().unwrap());
            assert_eq!((&*ran.stderr, ran.code), ("", Some(code)), "{format}");
        }
    }
}

/// Writes both sides, and compares them.
fn changed(before: &str, after: &str) -> (String, i32) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("before.yaml"), before).unwrap();
    fs::write(path("after.yaml"), after).unwrap();
    text(&path("before.yaml"), &path("after.yaml"), &[])
}

#[test]
fn objects_that_differ_only_in_what_no_rule_shows_are_counted() {
    let services = |name: &str, spec: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: \
             80}}], {spec}}}\n---\nkind: Service\nmetadata: {{name: other}}\nspec: {{ports: \
             [{{port: 80}}]}}\n"
        )
    };
    let balancer = |class: &str| {
        let spec = format!("type: LoadBalancer, loadBalancerClass: example.com/{class}");
        services("web", &spec)
    };
    let (said, code) = changed(&balancer("a"), &balancer("b"));
    let lines = "no differences\n1 object differs only in what no rule shows: see `kubectl diff`\n";
    assert!(said.starts_with(lines), "{said}");
    assert_eq!(code, 0);
    // Rules show this one.
    let (said, code) = changed(&balancer("a"), &services("web", "type: ClusterIP"));
    assert!(!said.contains("no rule shows"), "{said}");
    assert_eq!(code, 1);
    // Headless Services have no rules.
    let headless = |name| services(name, "clusterIP: None");
    let (said, code) = changed(&headless("db"), &headless("cache"));
    assert!(
        said.contains("\n2 objects differ only in what no rule shows"),
        "{said}"
    );
    assert_eq!(code, 0);
}

/// What is left out would look like a change.
#[test]
fn invalid_objects_and_files_end_a_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| folder.path().join(name));
    let service = "kind: Service\napiVersion: v1\nmetadata: {name: web}\nspec: {type: NodePort, \
                   ports: [{port: 80}]}\n";
    for side in [&before, &after] {
        fs::create_dir(side).unwrap();
        fs::write(side.join("b.yaml"), service.replace("web", "b")).unwrap();
    }
    fs::write(before.join("a.yaml"), service).unwrap();
    for (invalid, expected) in [
        (
            service.replace("NodePort", "NodePrt"),
            "a.yaml` line 4: Service `default/web`: spec.type: Unsupported value: \"NodePrt\"",
        ),
        (
            service.replace("type:", "tpye:"),
            "a.yaml` line 4: Service `default/web`: unknown field \"spec.tpye\" (did you mean \"type\"?)",
        ),
        ("kind: [\n".to_owned(), "a.yaml` line "),
    ] {
        fs::write(after.join("a.yaml"), invalid).unwrap();
        for (one, other) in [(&before, &after), (&after, &before)] {
            let ran = Ran::of(&mut diff(one, other, &[]));
            ran.fails(2, &[expected]);
            assert_eq!(ran.stdout, "");
        }
    }
    // The daemon would keep the last valid state.
    fs::write(
        after.join("a.yaml"),
        service.replace("port: 80", "port: []"),
    )
    .unwrap();
    let ran = Ran::of(&mut diff(&before, &after, &["--lenient"]));
    ran.fails(2, &["Service `default/web`: spec.ports[0].port: "]);
}

/// A name of an untrusted file must not change what a terminal shows.
#[test]
fn control_characters_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let service = |name: &str, label: &str| {
        format!(
            "kind: Service\napiVersion: v1\nmetadata: {{name: \"{name}\"}}\n\
             spec: {{ports: [{{port: 80}}], selector: {{app: \"{label}\"}}, \"x\\e[1m\": 1}}\n"
        )
    };
    fs::write(&before, service("a\\e[31mb", "c\\u202ed")).unwrap();
    fs::write(&after, service("a\\e[31mb", "e\\rf")).unwrap();
    let harmful = |text: &str| text.contains(['\u{1b}', '\u{202e}', '\r']);
    for more in [
        &["--lenient"][..],
        &["--lenient", "--unified"],
        &[],
        &["a\u{1b}b\u{202e}"],
        &["--\u{202e}"],
    ] {
        let ran = Ran::of(&mut diff(&before, &after, more));
        let said = ran.stdout + &ran.stderr;
        assert!(!harmful(&said), "{more:?}: {said:?}");
        assert!(said.contains("\\u{"), "{more:?}: {said}");
    }
}
