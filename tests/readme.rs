//! What the README shows is what the program prints, word by word, and its links lead somewhere.
//!
//! A sample is a block that begins with a prompt; a line of three dots in it stands for lines that
//! are left out.

#![allow(clippy::unwrap_used, reason = "failing is a test's job")]

use std::fs;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const README: &str = include_str!("../README.md");
const LEFT_OUT: &str = "...";

#[expect(clippy::disallowed_methods, reason = "this test runs the program")]
fn printed(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_deltaproxy"))
        .args(args)
        .current_dir(ROOT)
        .env_remove("RUST_LOG")
        .env_remove("KUBECTL_EXTERNAL_DIFF")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The blocks of a text without their indentation: lines of four blanks, and empty ones in between.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(line), Some(block)) => *block += &[line, "\n"].concat(),
            (None, Some(block)) if line.is_empty() && !block.is_empty() => *block += "\n",
            _ => blocks.push(String::new()),
        }
    }
    let blocks = blocks.iter().map(|block| block.trim_end().to_owned());
    blocks.filter(|block| !block.is_empty()).collect()
}

/// The command of a sample and what it is said to print.
fn sample(block: &str) -> Option<(Vec<String>, String)> {
    let block = block.strip_prefix("$ deltaproxy ")?.replace("\\\n", " ");
    let (command, output) = block.split_once('\n')?;
    Some((shlex::split(command)?, output.to_owned()))
}

/// Whether lines are all that is printed, but for those that are left out.
fn fits(shown: &str, printed: &str) -> bool {
    let mut rest = printed.lines();
    let mut is_gap = false;
    for line in shown.lines() {
        if line == LEFT_OUT {
            is_gap = true;
        } else if is_gap {
            if !rest.any(|printed| printed == line) {
                return false;
            }
            is_gap = false;
        } else if rest.next() != Some(line) {
            return false;
        }
    }
    is_gap || rest.next().is_none()
}

#[test]
fn every_sample_is_what_is_printed() {
    let samples: Vec<_> = blocks(README)
        .iter()
        .filter_map(|one| sample(one))
        .collect();
    let commands: Vec<_> = samples
        .iter()
        .filter_map(|(args, _)| args.first())
        .collect();
    assert_eq!(commands, ["services", "diff", "explain"]);
    for (args, shown) in samples {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let printed = printed(&words);
        assert!(
            fits(&shown, &printed),
            "{args:?}:\n{printed}\ninstead of:\n{shown}"
        );
    }
}

/// A Pod of three behind the Service `shop/storefront`.
const POD: &str = "\
- addresses: [\"10.4.0.13\"]
  nodeName: node1
  conditions: {ready: true, serving: true, terminating: false}
";

#[test]
fn the_partial_payload_is_what_a_pod_leaves() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(format!("{ROOT}/deploy/examples")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap();
        fs::write(folder.path().join(name), text.replace(POD, "")).unwrap();
    }
    let later = folder.path().to_str().unwrap();
    let args = ["render", "--since", "deploy/examples", "--manifests", later];
    let cidr = ["--cluster-cidr=10.4.0.0/14", "--hostname-override=node1"];
    let payload = printed(&[&args[..], &cidr].concat());
    assert!(
        blocks(README).contains(&payload.trim_end().to_owned()),
        "{payload}"
    );
}

#[test]
fn a_sample_may_leave_lines_out_and_nothing_else() {
    for (shown, printed, expected) in [
        ("a\nb", "a\nb\n", true),
        ("a", "a\nb\n", false),
        ("a\n...", "a\nb\n", true),
        ("a\n...\nc", "a\nb\nc\n", true),
        ("a\n...\nc", "a\nb\nc\nd\n", false),
        ("a\n...\nd", "a\nb\nc\n", false),
    ] {
        assert_eq!(fits(shown, printed), expected, "{shown}");
    }
}

const PAGES: [&str; 7] = [
    "README.md",
    "deploy/conformance.md",
    "deploy/docs/api-server.md",
    "deploy/docs/metrics.md",
    "deploy/docs/privileges.md",
    "deploy/docs/resources.md",
    "deploy/docs/speed.md",
];

/// What stands between `open` and `close`, wherever both are on a line.
fn between<'t>(text: &'t str, open: &'t str, close: char) -> impl Iterator<Item = &'t str> {
    let parts = text.lines().flat_map(move |line| line.split(open).skip(1));
    parts.filter_map(move |part| part.split_once(close).map(|(inside, _)| inside))
}

/// The links of a page in this folder that lead nowhere.
fn dangling(text: &str, folder: &str) -> Vec<String> {
    let files = between(text, "](", ')').filter(|link| !link.contains("://"));
    let missing = files.filter(|link| !Path::new(ROOT).join(folder).join(link).exists());
    let names = between(text, "][", ']');
    let unnamed = names.filter(|name| !text.contains(&format!("\n[{name}]: ")));
    missing.chain(unnamed).map(str::to_owned).collect()
}

#[test]
fn links_lead_somewhere() {
    for page in PAGES {
        let text = fs::read_to_string(format!("{ROOT}/{page}")).unwrap();
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        assert_eq!(dangling(&text, folder), [""; 0], "{page}");
    }
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let text =
        "a ([b](nothing.md), [KEP][kep])\n[c](README.md) [d](https://x.test/) [e][f]\n\n[f]: g\n";
    assert_eq!(dangling(text, ""), ["nothing.md", "kep"]);
}
