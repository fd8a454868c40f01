//! Checks that docs and texts are in the terms of Kubernetes and netfilter.
//!
//! Only what a program can see; the rest is for reviewers.

use crate::source::{File, Part, all_files};

/// Beginnings of docs that lean on their neighbors, or name no object.
const OPENINGS: &[&str] = &[
    "Apart", "How", "It", "Of", "The same", "What", "Where", "Whether", "Which", "Who", "With it",
];

/// The same in tests, whose docs are read with the test at hand.
const TEST_OPENINGS: &[&str] = &["Apart"];

/// Words for people and metaphors, where a program, a packet or a client is meant.
const WORDS: &[&str] = &[
    "anybody",
    "as now",
    "crowd",
    "guests",
    "heirs",
    "in vain",
    "lived with",
    "nobody",
    "other people",
    "settled",
    "somebody",
    "stranger",
    "strangers",
    "told",
    "who asks",
    "whoever",
    "whom",
];

/// Phrases that no text for a user has.
const PHRASES: &[&str] = &[
    " is no ", ", too", "as now", "in vain", "is told", "nobody", "somebody", "who asks", "whoever",
];

/// Files whose docs are help texts.
const HELP: &[&str] = &[
    "src/config/commands.rs",
    "src/config/flags.rs",
    "src/config/tool_flags.rs",
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
    let listed = match file.part() {
        Part::Test => TEST_OPENINGS,
        Part::Product | Part::Prose => OPENINGS,
    };
    let begins_with = |text: &str, opening: &str| {
        let rest = text.strip_prefix(opening);
        rest.is_some_and(|rest| rest.starts_with([' ', ',', '.']))
    };
    let openings = beginnings(file).filter_map(|(number, text)| {
        let opening = listed.iter().find(|opening| begins_with(text, opening))?;
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

/// String literals of product code, with the numbers of the lines that they begin on.
fn literals(file: &File) -> Vec<(usize, String)> {
    let lines = file.code();
    let mut literals = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in lines {
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match (&mut open, c) {
                (Some((_, text)), '\\') => text.extend(chars.next().filter(|c| *c == '"')),
                (Some(_), '"') => literals.extend(open.take()),
                (Some((_, text)), c) => text.push(c),
                (None, '"') => open = Some((number, String::new())),
                (None, '\'') if chars.peek() == Some(&'"') => drop(chars.next()),
                (None, _) => {}
            }
        }
        if let Some((_, text)) = &mut open {
            // A continued line begins with blanks that are not part of the text.
            text.truncate(text.trim_end().len());
            text.push(' ');
        }
    }
    literals
}

/// Texts that users see: string literals, and docs that clap makes help texts of.
fn phrases(file: &File) -> Vec<String> {
    let mut texts = literals(file);
    if HELP.iter().any(|help| file.path.starts_with(help)) {
        let docs = comments(file).map(|(number, text)| (number, text.to_owned()));
        texts.extend(docs);
    }
    let mut found = Vec::new();
    for (number, text) in texts {
        let text = text
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .to_lowercase();
        let text = text
            .replace(" is no longer", "")
            .replace("there is no ", "");
        let bad = PHRASES.iter().filter(|phrase| text.contains(**phrase));
        found.extend(bad.map(|phrase| format!("{}:{number}: `{phrase}` in a text", file.path)));
    }
    found
}

fn product() -> Vec<File> {
    let mut files = all_files();
    files.retain(|file| file.part() == Part::Product && file.path.starts_with("src/"));
    assert!(files.len() > 100, "{} files", files.len());
    files
}

/// Tests, except for this file, which has the words in examples.
fn tests() -> Vec<File> {
    let mut files = all_files();
    files.retain(|file| {
        let is_test = file.part() == Part::Test && !file.path.starts_with("benches/");
        is_test && file.path != "tests/plain_words.rs"
    });
    files
}

#[test]
fn docs_are_in_plain_words() {
    let files = product().into_iter().chain(tests());
    let all: Vec<String> = files.flat_map(|file| complaints(&file)).collect();
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
}

#[test]
fn texts_for_users_are_in_plain_words() {
    let all: Vec<String> = product().iter().flat_map(phrases).collect();
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
}
