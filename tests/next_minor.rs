//! `tests/next-minor.sh`: what it finds between two releases, an error, and that our `Upstream:`
//! lines name files and functions that exist.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::left_out::{Part, skips};
use crate::support::tell;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const OLD: &str = "1.36.3";
const NEW: &str = "1.37.2";

/// Lines of the output, one or some for each kind of change. Blank lines only divide them.
const SAMPLE: &str = include_str!("next_minor/1.36-1.37.txt");

/// How many lines there are, without those about our files.
const LINES: usize = 1335;

fn script(arguments: &[&str], proxy: Option<&str>) -> Output {
    let mut command = Command::new(Path::new(ROOT).join("tests/next-minor.sh"));
    command.args(arguments);
    if let Some(proxy) = proxy {
        command.env("GOPROXY", proxy);
    }
    command.output().unwrap()
}

/// Reports whether the script could not run for lack of Go, or of the network and the modules.
fn is_unable(output: &Output) -> bool {
    let why = String::from_utf8_lossy(&output.stderr);
    let is_unable = output.status.code() == Some(127) || why.contains(": cannot fetch ");
    if is_unable {
        tell(format_args!("skipped: {}", why.trim_end()));
    }
    is_unable
}

/// Returns the lines of the output, without those about our files.
fn upstream_lines(changes: &str) -> impl Iterator<Item = &str> {
    let lines = changes.lines();
    lines.filter(|line| !line.trim_start().starts_with("ours: "))
}

/// Returns the `Upstream:` lines that are wrong: those that name what neither release has, and,
/// once the newer one is followed, what that one lacks.
fn wrong_references(references: &str) -> Vec<&str> {
    let module = include_str!("support/kube/go.mod");
    let follows_new = module.contains(&format!("k8s.io/kubernetes v{NEW}\n"));
    let (missing, _) = references.split_once("\n### ").unwrap();
    let lines = missing.lines().skip_while(|line| !line.ends_with(':'));
    let lines = lines.skip(1).filter(|line| !line.is_empty());
    lines
        .filter(|line| follows_new || line.ends_with(" lacks it as well"))
        .collect()
}

#[test]
fn the_changes_of_a_minor_release_are_printed() {
    if skips(Part::Machine) {
        return;
    }
    let output = script(&[OLD, NEW], None);
    if is_unable(&output) {
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (changes, references) = text.split_once("\n## References\n").unwrap();
    let mut printed = upstream_lines(changes);
    for line in SAMPLE.lines().filter(|line| !line.is_empty()) {
        let is_next = |other: &str| other == line;
        assert!(printed.any(is_next), "no `{line}`, or not in this place");
    }
    assert_eq!(upstream_lines(changes).count(), LINES);
    // One of many, so that lines of ours are found at all.
    let ours = "\n~ Proxier.syncProxyRules\n    ours: src/";
    assert!(changes.contains(ours), "{changes}");
    assert_eq!(wrong_references(references), Vec::<&str>::new());
}

#[test]
fn a_release_that_cannot_be_fetched_is_an_error() {
    if skips(Part::Machine) {
        return;
    }
    let output = script(&[OLD, "1.999.0"], Some("off"));
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(127) {
        tell(format_args!("skipped: {}", text.trim_end()));
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    let is_expected =
        |line: &str| line.starts_with("next-minor.sh: cannot fetch k8s.io/kubernetes v1.");
    assert!(
        text.lines().count() == 1 && text.lines().all(is_expected),
        "{text}"
    );
    assert!(output.stdout.is_empty());
}
