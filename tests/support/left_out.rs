//! The parts of the suite that a run leaves out, as `tests/run.sh` lists them in
//! `TESTS_LEFT_OUT`. Nothing else reads the variable: without it, all tests run.

use std::time::{SystemTime, UNIX_EPOCH};

use super::tell::tell;

const VARIABLE: &str = "TESTS_LEFT_OUT";

/// A part of the suite that some runs leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Tests that need root, or programs that neither Rust nor this repository has.
    Machine,
    /// Everything that takes turns by date, except what is due on the day: random histories, random
    /// clusters whose trees are explained, variants of the packets' tables, backends of shadow mode
    /// and of exchanges of proxies, what growth is measured of.
    OtherGroups,
    /// Three of four random cases of the properties, and half of the steps of random histories of
    /// groups of variants.
    MoreCases,
    /// Tests of the charts and guides, with kubectl, kubeadm and helm.
    Guides,
    /// Tests of static binaries, the image and the release.
    Image,
}

impl Part {
    const ALL: [Self; 5] = [
        Self::Machine,
        Self::OtherGroups,
        Self::MoreCases,
        Self::Guides,
        Self::Image,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::OtherGroups => "other-groups",
            Self::MoreCases => "more-cases",
            Self::Guides => "guides",
            Self::Image => "image",
        }
    }
}

/// Reports whether the run leaves out a part. A test that is left out prints that it is skipped.
///
/// # Panics
///
/// Panics if the variable has an unknown word: the run would have tests that it should not have.
pub fn is_left_out(part: Part) -> bool {
    let list = std::env::var(VARIABLE).unwrap_or_default();
    for word in list.split_whitespace() {
        let is_known = Part::ALL.iter().any(|part| part.word() == word);
        assert!(is_known, "{VARIABLE}: unknown part `{word}`");
    }
    list.split_whitespace().any(|word| word == part.word())
}

/// Reports whether a test must end because the run leaves out its part, and prints so.
pub fn skips(part: Part) -> bool {
    let is_left_out = is_left_out(part);
    if is_left_out {
        let word = part.word();
        tell(format_args!("skipped: this run leaves out: {word}"));
    }
    is_left_out
}

/// Reports whether one of so many turns belongs to the run: all do, or that of the day. Prints if
/// not.
pub fn is_due(turn: u64, of: u64) -> bool {
    if !is_left_out(Part::OtherGroups) {
        return true;
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a date after 1970");
    let today = now.as_secs() / (24 * 60 * 60) % of;
    turn % of == today || !skips(Part::OtherGroups)
}

/// Returns how many random cases a property has in the run, of so many.
pub fn cases(all: u32) -> u32 {
    if is_left_out(Part::MoreCases) {
        all / 4
    } else {
        all
    }
}
