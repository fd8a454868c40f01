//! Checks the README and the pages of `deploy`: samples are the output of the program, links have
//! targets, the index is complete, and the README is short.
//!
//! A sample is an indented block that begins with `$ deltaproxy`; a line of three dots in it stands
//! for omitted lines.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::program::run;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const README: &str = include_str!("../README.md");
const COMMANDS: &str = include_str!("../deploy/docs/commands.md");
const INDEX: &str = include_str!("../deploy/docs/README.md");
/// Pages outside of [`DOCS`].
const PAGES: [&str; 5] = [
    "README.md",
    ".github/CONTRIBUTING.md",
    ".github/SECURITY.md",
    "deploy/CHANGELOG.md",
    "deploy/conformance.md",
];
/// Folder of the reference pages.
const DOCS: &str = "deploy/docs";
/// Maximum number of lines of the README.
const README_LINES: usize = 180;
const PROMPT: &str = "$ ";
const LEFT_OUT: &str = "...";

/// Names of the pages in `DOCS`.
fn reference_pages() -> Vec<String> {
    let entries = fs::read_dir(Path::new(ROOT).join(DOCS)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_page = |name: &String| Path::new(name).extension() == Some("md".as_ref());
    let mut pages: Vec<String> = names.filter(is_page).collect();
    pages.sort();
    pages
}

/// Paths and texts of all pages.
fn pages() -> Vec<(String, String)> {
    let reference = reference_pages().into_iter();
    let paths = PAGES.into_iter().map(str::to_owned);
    let paths = paths.chain(reference.map(|name| format!("{DOCS}/{name}")));
    let read = |path: &str| fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    paths.map(|path| (path.clone(), read(&path))).collect()
}

fn printed(args: &[&str]) -> String {
    let ran = run(args);
    // The number of service ports, as a terminal shows it.
    let said = ran.stderr;
    assert!(
        said.is_empty() || said.contains(" service ports, "),
        "{args:?}: {said}"
    );
    ran.stdout + &said
}

/// Returns the blocks of a text without their indentation: lines of four blanks, and empty ones in
/// between.
pub(crate) fn blocks(text: &str) -> Vec<String> {
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

/// Returns the command line of a sample and its output; `None` if the block is not a sample.
fn sample(block: &str) -> Option<(Vec<String>, String)> {
    let block = block
        .strip_prefix(PROMPT)?
        .strip_prefix("deltaproxy ")?
        .replace("\\\n", " ");
    let (command, output) = block.split_once('\n').unwrap_or((block.as_str(), ""));
    Some((shlex::split(command).unwrap(), output.to_owned()))
}

/// Reports whether a sample shows all printed lines, except omitted ones.
fn fits(shown: &str, printed: &str) -> bool {
    fits_by(shown, printed, |shown, printed| shown == printed)
}

/// Like [`fits`], with another comparison of a shown line and a printed one.
pub(crate) fn fits_by(shown: &str, printed: &str, is_same: impl Fn(&str, &str) -> bool) -> bool {
    let mut rest = printed.lines();
    let mut is_gap = false;
    for line in shown.lines() {
        if line == LEFT_OUT {
            is_gap = true;
        } else if is_gap {
            if !rest.any(|printed| is_same(line, printed)) {
                return false;
            }
            is_gap = false;
        } else if !rest.next().is_some_and(|printed| is_same(line, printed)) {
            return false;
        }
    }
    is_gap || rest.next().is_none()
}

#[test]
fn samples_are_the_output_of_the_program() {
    let mut commands = BTreeSet::new();
    // Those of this page are of nodes that `no_answer` prepares.
    let others = pages().into_iter();
    let others = others.filter(|(page, _)| page != "deploy/docs/no-answer.md");
    for (page, text) in others {
        for block in blocks(&text) {
            let later = block.lines().skip(1);
            let prompts = later.filter(|line| line.starts_with(PROMPT)).count();
            assert_eq!(
                prompts, 0,
                "{page}: several commands in one block:\n{block}"
            );
            let Some((args, shown)) = sample(&block) else {
                continue;
            };
            let words: Vec<&str> = args.iter().map(String::as_str).collect();
            let printed = printed(&words);
            assert!(
                fits(&shown, &printed),
                "{page}: {args:?}:\n{printed}\ninstead of:\n{shown}"
            );
            commands.extend(args.into_iter().take(1));
        }
    }
    let expected = ["diff", "explain", "services"].map(str::to_owned);
    assert_eq!(commands, expected.into());
}

/// One of three endpoints of the Service `shop/storefront`.
const POD: &str = "\
- addresses: [\"10.4.0.13\"]
  nodeName: node1
  conditions: {ready: true, serving: true, terminating: false}
";

#[test]
fn the_partial_payload_is_that_of_a_removed_endpoint() {
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
        blocks(COMMANDS).contains(&payload.trim_end().to_owned()),
        "{payload}"
    );
}

/// Returns the texts between `open` and `close` that are on one line.
fn between<'t>(text: &'t str, open: &'t str, close: char) -> impl Iterator<Item = &'t str> {
    let parts = text.lines().flat_map(move |line| line.split(open).skip(1));
    parts.filter_map(move |part| part.split_once(close).map(|(inside, _)| inside))
}

/// Returns the links of a page in this folder that have no target.
fn dangling(text: &str, folder: &str) -> Vec<String> {
    let files = between(text, "](", ')').filter(|link| !link.contains("://"));
    let exists = |file: &str| Path::new(ROOT).join(folder).join(file).exists();
    let missing = files.filter(|link| !exists(link.split('#').next().unwrap()));
    let names = between(text, "][", ']');
    let unnamed = names.filter(|name| !text.contains(&format!("\n[{name}]: ")));
    missing.chain(unnamed).map(str::to_owned).collect()
}

#[test]
fn links_have_targets() {
    for (page, text) in pages() {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        assert_eq!(dangling(&text, folder), [""; 0], "{page}");
    }
}

#[test]
fn the_index_lists_every_page() {
    for page in reference_pages() {
        let is_listed = INDEX.contains(&format!("]({page})"));
        assert!(page == "README.md" || is_listed, "{page}");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = README.lines().count();
    assert!(lines <= README_LINES, "{lines} lines");
}
