//! Untrusted input: bytes and texts that are almost what was expected, and how many of them a test
//! tries.
//!
//! Of the same shape for every parser, so that what one of them misread is tried on all. Tests of
//! modules include it by its path.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "support of tests: who includes it uses a part of it, and failing is its job"
)]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

use super::left_out;

/// As many cases as the run has of so many, always the same ones; or as many as `PROPTEST_CASES`
/// says, other ones each time. `PROPTEST_RNG_SEED` repeats a long run.
pub fn cases(number: u32) -> ProptestConfig {
    let given = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return given;
    }
    ProptestConfig {
        cases: left_out::cases(number),
        rng_seed: RngSeed::Fixed(1),
        ..given
    }
}

/// A copy of a document in which every text but times is this one, in fields of today and later.
pub fn everywhere<T: serde::Serialize + serde::de::DeserializeOwned>(
    document: &T,
    text: &str,
) -> T {
    let mut value = serde_json::to_value(document).unwrap();
    replace_texts(&mut value, text);
    serde_json::from_value(value).unwrap()
}

fn replace_texts(value: &mut serde_json::Value, text: &str) {
    use serde_json::Value;
    match value {
        Value::String(found) if found.parse::<jiff::Timestamp>().is_err() => text.clone_into(found),
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| replace_texts(value, text)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|value| replace_texts(value, text)),
        _ => {}
    }
}

/// Reports whether a text has a character that a terminal acts on, but for line ends.
pub fn acts_on_a_terminal(text: &str) -> bool {
    let turns = [
        '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}',
    ];
    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.chars().any(|c| turns.contains(&c) || acts(c))
}

/// What has a meaning to some parser on the way from an object to the kernel, or to people's eyes.
pub const WORDS: &[&str] = &[
    "\n",
    "\r\n",
    "\0",
    "\t",
    " ",
    "\"",
    "'",
    "\\",
    "\\\"",
    "\u{1b}[31m",
    "\u{85}",
    "\u{2028}",
    "\u{202e}",
    "\u{feff}",
    "é",
    "-j ACCEPT",
    "\" -j ACCEPT",
    "\n-A INPUT -j ACCEPT\n",
    "\nCOMMIT\n",
    "*filter",
    "\n*filter\n:INPUT ACCEPT [0:0]\n",
    ":INPUT ACCEPT [0:0]",
    "#",
    "-t",
    "--table",
    "--comment",
    "-A",
    "-D",
    "-X",
    "-F",
    "-P",
    "-N",
    "!",
    "-m",
    "KUBE-SERVICES",
    "KUBE-SVC-AAAAAAAAAAAAAAAA",
    "KUBE-MARK-MASQ",
    "COMMIT",
    "$(id)",
    "${x}",
    "`id`",
    ";",
    "|",
    "%s%n",
    "..",
    "/",
    ":",
    "::",
    ",",
    "=",
    "[",
    "]",
    "{",
    "}",
    "&a",
    "*a",
    "<<",
    "---",
    "null",
    "true",
    "~",
    "0",
    "-0",
    "-1",
    "010",
    "0x10",
    "1e9",
    "1e400",
    "NaN",
    "Inf",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "10.0.0.1",
    "010.0.0.1",
    "::ffff:10.0.0.1",
    "fd00::1",
    "10.0.0.0/33",
    "0.0.0.0/0",
    "1h2m3.5s",
    "µs",
    "--probability 0.5",
    "[0:0]",
];

/// A text of some words, or of anything between them.
pub fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => select(WORDS).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => "[ -~]{0,6}",
        1 => (1..400_usize).prop_map(|length| "x".repeat(length)),
    ];
    vec(word, 0..5).prop_map(|words| words.concat())
}

/// Any bytes, mostly few.
pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..40),
        vec(any::<u8>(), 0..400),
        text().prop_map(String::into_bytes),
    ]
}

/// One of the samples, changed in a few places; or nothing like them.
pub fn mutated(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = vec(
        (
            0..9_u8,
            any::<Index>(),
            any::<Index>(),
            any::<u8>(),
            select(WORDS),
        ),
        0..6,
    );
    let sample = select(samples.clone());
    let parts = (sample, select(samples), changes);
    let mutants = parts.prop_map(|(mut text, other, changes)| {
        for (kind, from, to, byte, word) in changes {
            change(&mut text, &other, (kind, from, to, byte, word));
        }
        text
    });
    prop_oneof![9 => mutants, 1 => bytes()]
}

/// The same of texts; what is no UTF-8 any more is replaced.
pub fn mutated_text(samples: &[&str]) -> impl Strategy<Value = String> + use<> {
    let samples = samples.iter().map(|text| text.as_bytes().to_vec());
    mutated(samples.collect()).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn change(
    text: &mut Vec<u8>,
    other: &[u8],
    (kind, from, to, byte, word): (u8, Index, Index, u8, &str),
) {
    let (a, b) = (from.index(text.len() + 1), to.index(text.len() + 1));
    let range = a.min(b)..a.max(b).min(a.min(b) + 64);
    match kind {
        0 => text.truncate(a),
        1 => drop(text.drain(range)),
        2 => {
            let again = text[range].to_vec();
            text.splice(a..a, again);
        }
        3 => drop(text.splice(a..a, word.bytes())),
        4 => drop(text.splice(range, word.bytes())),
        5 => text.insert(a, byte),
        6 => drop(text.splice(a.., other[to.index(other.len() + 1)..].iter().copied())),
        _ => {
            if let Some(place) = text.get_mut(a) {
                *place = if kind == 7 {
                    byte
                } else {
                    *place ^ (1 << (byte % 8))
                };
            }
        }
    }
}
