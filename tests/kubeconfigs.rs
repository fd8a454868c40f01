//! Kubeconfigs of the user: commands find, merge and choose as kubectl does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::played::kubeconfig_text;
use crate::support::program::{PROGRAM, Ran};

/// Writes a kubeconfig whose cluster, user and context have this name. Nothing listens at its
/// server, so that errors name it.
fn kubeconfig(path: &Path, name: &str, port: u16) -> PathBuf {
    let server = format!("server: 'http://127.0.0.1:{port}'");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, kubeconfig_text(name, &server, "")).unwrap();
    path.to_owned()
}

/// Runs `render`, which must fail, and returns its stderr.
fn failure(home: &Path, variable: &str, flags: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command
        .arg("render")
        .args(flags)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", home)
        .env("KUBECONFIG", variable);
    let output = Ran::of(&mut command);
    assert!(!output.is_success(), "{output:#?}");
    output.stderr
}

#[track_caller]
fn check(said: &str, expected: &str) {
    assert!(said.contains(expected), "{said}");
}

#[test]
fn files_are_merged_and_chosen_from() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    check(&failure(home, "", &[]), "no source of Services");
    kubeconfig(&home.join(".kube/config"), "home", 1);
    check(&failure(home, "", &[]), "http://127.0.0.1:1/");

    let first = kubeconfig(&home.join("first"), "first", 2);
    let second = kubeconfig(&home.join("second"), "second", 3);
    let missing = home.join("missing");
    let list = std::env::join_paths([&missing, &first, &second]).unwrap();
    let list = list.to_str().unwrap();
    check(&failure(home, list, &[]), "http://127.0.0.1:2/");
    check(
        &failure(home, list, &["--context=second"]),
        "http://127.0.0.1:3/",
    );
    check(
        &failure(home, list, &["--cluster=second"]),
        "http://127.0.0.1:3/",
    );
    let file = format!("--kubeconfig={}", second.display());
    check(&failure(home, list, &[&file]), "http://127.0.0.1:3/");
}

#[test]
fn an_unknown_choice_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let first = kubeconfig(&home.join("first"), "first", 2);
    let first = first.to_str().unwrap();
    let cannot_read = format!("error: cannot read kubeconfig `{first}`: unknown");
    assert_eq!(
        failure(home, first, &["--context=prod"]),
        format!("{cannot_read} context `prod`\nhint: list them: kubectl config get-contexts\n")
    );
    assert_eq!(
        failure(home, first, &["--cluster=prod"]),
        format!("{cannot_read} cluster `prod`\nhint: list them: kubectl config get-clusters\n")
    );
}

#[test]
fn the_daemon_has_the_flags_of_kube_proxy_alone() {
    let folder = tempfile::tempdir().unwrap();
    kubeconfig(&folder.path().join(".kube/config"), "home", 1);
    let mut command = Command::new(PROGRAM);
    command
        .args(["run", "--dry-run"])
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("KUBECONFIG")
        .env("HOME", folder.path());
    check(&Ran::of(&mut command).stderr, "no source of Services");
}
