//! Checks the wording of modules that are written in the terms of Kubernetes and netfilter.
//!
//! Only what a program can see; the rest is for reviewers.

use crate::source::{File, Part, all_files};

/// Folders whose sentences were read one by one. It grows until it holds all of `src`.
const FOLDERS: &[&str] = &[
    "src/app/",
    "src/cli/",
    "src/config/",
    "src/conntrack/",
    "src/events/",
    "src/explain/",
    "src/health/",
    "src/host/",
    "src/ingest/",
    "src/inspect/",
    "src/model/",
    "src/net/",
    "src/render/",
    "src/ruleset/",
    "src/rules/",
    "src/select/",
    "src/sync/",
    "src/telemetry/",
    "src/tracker/",
    "src/watch/",
];

/// Beginnings of docs that lean on their neighbors, or name no object.
const OPENINGS: &[&str] = &[
    "Apart", "How", "It", "Of", "The same", "What", "Where", "Whether", "Which", "Who", "With it",
];

/// Words for people and metaphors, where a program, a packet or a client is meant.
const WORDS: &[&str] = &[
    "anybody", "in vain", "nobody", "somebody", "stranger", "told", "whoever", "whom",
];

/// Lines of comments with their numbers, without their marks.
fn comments(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(file.text.lines());
    lines.filter_map(|(number, line)| {
        let (_, comment) = line.split_once("//")?;
        Some((number, comment.trim_start_matches(['/', '!']).trim()))
    })
}

/// Comments that begin a doc or a paragraph.
fn beginnings(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let is_doc = |line: &str| line.trim_start().starts_with("//");
    let mut before = "";
    let lines = (1..).zip(file.text.lines());
    lines.filter_map(move |(number, line)| {
        let is_first = !is_doc(before)
            || before
                .trim_start()
                .trim_start_matches(['/', '!'])
                .is_empty();
        before = line;
        let comment = line.trim_start().strip_prefix("//")?;
        let text = comment.strip_prefix(['/', '!'])?.trim();
        (is_first && !text.is_empty()).then_some((number, text))
    })
}

fn complaints(file: &File) -> Vec<String> {
    let path = &file.path;
    let begins_with = |text: &str, opening: &str| {
        let rest = text.strip_prefix(opening);
        rest.is_some_and(|rest| rest.starts_with([' ', ',']))
    };
    let openings = beginnings(file).filter_map(|(number, text)| {
        let opening = OPENINGS.iter().find(|opening| begins_with(text, opening))?;
        Some(format!("{path}:{number}: a doc begins with `{opening}`"))
    });
    let words = comments(file).flat_map(|(number, text)| {
        let text = text.to_lowercase();
        let is_word = |word: &&&str| {
            let padded = format!(" {text} ").replace([',', '.', ':', ';', '(', ')'], " ");
            padded.contains(&format!(" {word} "))
        };
        let found: Vec<_> = WORDS.iter().filter(is_word).collect();
        found
            .into_iter()
            .map(move |word| format!("{path}:{number}: `{word}`"))
    });
    openings.chain(words).collect()
}

#[test]
fn docs_are_in_plain_words() {
    let files = all_files();
    let is_listed = |file: &&File| {
        let in_folder = |folder: &&str| file.path.starts_with(*folder);
        FOLDERS.iter().any(in_folder) && file.part() == Part::Product
    };
    let listed: Vec<&File> = files.iter().filter(is_listed).collect();
    assert!(listed.len() > 10, "{} files", listed.len());
    let all: Vec<String> = listed.into_iter().flat_map(complaints).collect();
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
}

#[test]
fn unclear_docs_are_found() {
    for (text, expected) in [
        ("/// Returns the address.\nfn a() {}", 0),
        ("/// What it is.\nfn a() {}", 1),
        (
            "/// Returns it\n/// What follows is the same doc.\nfn a() {}",
            0,
        ),
        ("//! Parses.\n//!\n//! Apart because.", 1),
        ("fn a() {} // nobody answers", 1),
        ("/// Whatever holds.\nfn a() {}", 0),
        ("    /// The same for IPv6.\n    b: u8,", 1),
    ] {
        let found = complaints(&File::sample("src/net/a.rs", text));
        assert_eq!(found.len(), expected, "{text}: {found:?}");
    }
}
