//! Licenses and sources of dependencies, as `.deny.toml` allows them.
//!
//! `cargo deny` reads the same file, and advisories as well, where it is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::source::all_files;

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The texts of a list in `.deny.toml`, which is called `name` once only.
fn list(name: &str) -> Vec<String> {
    let policy = text(".deny.toml");
    let (_, rest) = policy.split_once(&format!("\n{name} = [")).unwrap();
    let (inside, _) = rest.split_once(']').unwrap();
    inside
        .split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// What is built for machines like this one: names, versions, licences, sources. For others more
/// might have to be fetched first.
fn packages() -> Vec<Value> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let args = [
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        &target,
    ];
    let output = Command::new(env!("CARGO")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let built: BTreeSet<&str> = nodes
        .iter()
        .map(|node| node["id"].as_str().unwrap())
        .collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let packages = packages.filter(|package| built.contains(package["id"].as_str().unwrap()));
    packages.cloned().collect()
}

fn is_ours(package: &Value) -> bool {
    package["name"] == env!("CARGO_PKG_NAME")
}

/// Whether one may choose a licence of the list. A slash is an `OR` of old. Parentheses are not
/// heeded, `OR` goes before `AND`: never is more allowed than with them.
fn is_allowed(licence: &str, allowed: &[String]) -> bool {
    let plain = licence.replace('/', " OR ").replace(['(', ')'], "");
    plain.split(" AND ").all(|choice| {
        let mut names = choice.split(" OR ");
        names.any(|name| allowed.iter().any(|one| one == name.trim()))
    })
}

#[test]
fn licences_are_those_that_are_allowed() {
    let allowed = list("allow");
    let packages = packages();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages.iter().filter(|package| !is_ours(package)) {
        let licence = package["license"].as_str().unwrap_or_default();
        let name = &package["name"];
        assert!(
            is_allowed(licence, &allowed),
            "{name}: `{licence}` is not in .deny.toml"
        );
    }
}

#[test]
fn sources_are_those_that_are_allowed() {
    let registries = list("allow-registry");
    let lock = text("Cargo.lock");
    let entries = lock.split("[[package]]").skip(1);
    for entry in entries {
        let field = |name: &str| {
            let mut lines = entry.lines().filter_map(|line| line.split_once(" = "));
            lines
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.trim_matches('"'))
        };
        let name = field("name").unwrap();
        if name == env!("CARGO_PKG_NAME") {
            assert_eq!(field("source"), None);
            continue;
        }
        let source = field("source").unwrap_or_else(|| panic!("{name} is from a folder"));
        let registry = source.strip_prefix("registry+").unwrap_or_default();
        assert!(
            registries.iter().any(|one| one == registry),
            "{name} is from {source}"
        );
        assert_eq!(field("checksum").map(str::len), Some(64), "{name}");
    }
}

/// The one file with unsafe code: a socket option that no crate knows.
const UNSAFE: &str = "src/host/iptables/table_size.rs";

/// Unsafe code is denied in all targets, and one file alone is exempt.
#[test]
fn unsafe_code_is_in_one_file() {
    let files = all_files();
    assert!(files.iter().any(|file| file.path == UNSAFE));
    for file in files.iter().filter(|file| file.is_rust()) {
        let exempts = file.text.contains(concat!("unsafe", "_code"));
        let is_exempt = [UNSAFE, "tests/dependencies.rs"].contains(&&*file.path);
        assert!(!exempts || is_exempt, "{}", file.path);
    }

    let manifest = text("Cargo.toml");
    let (_, lints) = manifest.split_once("\n[lints.rust]\n").unwrap();
    let lints = lints.split("\n[").next().unwrap();
    assert!(
        lints.lines().any(|line| line == "unsafe_code = \"deny\""),
        "{lints}"
    );
    assert!(
        !manifest.contains("[workspace]"),
        "members have lints of their own"
    );
}

/// The feature `testing` is enabled by a dev-dependency only, and what needs it is behind it.
#[test]
fn a_release_has_no_test_support() {
    let args = [
        "tree",
        "--locked",
        "--depth=0",
        "--edges=normal,build",
        "--prefix=none",
        "--format={f}",
    ];
    let output = Command::new(env!("CARGO")).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let features = String::from_utf8(output.stdout).unwrap();
    assert_eq!(features.trim(), "default,jemalloc,tools");
    for (file, module) in [
        (
            "src/lib.rs",
            "#[path = \"tests/testing.rs\"]\npub mod testing;",
        ),
        (
            "src/rules/mod.rs",
            "#[path = \"tests/comparison.rs\"]\nmod comparison;",
        ),
        (
            "src/host/iptables/mod.rs",
            "#[path = \"tests/fake.rs\"]\nmod fake;",
        ),
    ] {
        let guarded = format!("\n#[cfg(feature = \"testing\")]\n{module}\n");
        assert!(text(file).contains(&guarded), "{file}");
    }
}
