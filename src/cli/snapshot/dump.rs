//! Splits the text of a dump by family, and brings it into the format of `iptables-save`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::net::IpFamily;
use crate::rules::{ParseError, Table};

/// Rules of one family in a dump.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DumpPart<'t> {
    pub(super) family: IpFamily,
    /// Text in the format of `iptables-save`.
    pub(super) text: Cow<'t, str>,
    /// Number in the dump of each line of the text, if they differ.
    numbers: Option<Vec<usize>>,
}

impl<'t> DumpPart<'t> {
    /// Splits a dump.
    pub(super) fn split(text: &'t str) -> Vec<Self> {
        let parts = by_family(text).into_iter();
        parts
            .map(|(family, text)| Self::new(family, text))
            .collect()
    }

    fn new(family: IpFamily, text: Cow<'t, str>) -> Self {
        let (text, numbers) = match listing_as_save(&text) {
            Some((text, numbers)) => (Cow::Owned(text), Some(numbers)),
            None => (text, None),
        };
        Self {
            family,
            text,
            numbers,
        }
    }

    /// Returns the names of its tables, in order; one may be there twice.
    pub(super) fn tables(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter_map(table_name)
    }

    /// Returns the first table that is there twice with the same chain: one ruleset has each once.
    pub(super) fn repeated_table(&self) -> Option<&str> {
        let (mut table, mut section) = ("", 0);
        let mut declared = BTreeMap::new();
        self.text.lines().find_map(|line| {
            if let Some(name) = table_name(line) {
                (table, section) = (name, section + 1);
            }
            let chain = line.trim().strip_prefix(':')?.split_whitespace().next()?;
            let first = *declared.entry((table, chain)).or_insert(section);
            (first != section).then_some(table)
        })
    }

    /// Removes the last table if its `COMMIT` is missing and there are complete ones before it.
    /// Returns its name.
    pub(super) fn remove_cut_table(&mut self) -> Option<String> {
        let (mut start, mut complete) = (0, 0);
        let mut open: Option<(usize, &str)> = None;
        for line in self.text.split_inclusive('\n') {
            if let Some(name) = table_name(line) {
                open = Some((start, name));
            } else if line.trim() == "COMMIT" {
                open = None;
                complete += 1;
            }
            start += line.len();
        }
        let (start, name) = open.filter(|_| complete > 0)?;
        let name = name.to_owned();
        self.text = Cow::Owned(self.text.get(..start)?.to_owned());
        Some(name)
    }

    /// Returns an error with the number of the line in the dump.
    pub(super) fn located(&self, error: ParseError) -> ParseError {
        let number = |numbers: &Vec<usize>| numbers.get(error.line.checked_sub(1)?).copied();
        let line = self.numbers.as_ref().and_then(number);
        ParseError {
            line: line.unwrap_or(error.line),
            ..error
        }
    }
}

fn table_name(line: &str) -> Option<&str> {
    line.trim().strip_prefix('*').map(str::trim)
}

/// Returns the families of which `iptables-save` reports rules of the backend legacy, which are not
/// in its output.
pub(super) fn legacy_families(text: &str) -> BTreeSet<IpFamily> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    let reports = lines.filter(|line| line.contains("tables-legacy tables present"));
    let of_report = |line: &str| {
        if line.contains("ip6tables") {
            IpFamily::V6
        } else {
            IpFamily::V4
        }
    };
    reports.map(of_report).collect()
}

/// Returns the warnings that `iptables-save` writes into its output.
pub(super) fn save_warnings(text: &str) -> Vec<String> {
    let mut warnings = BTreeSet::new();
    if !legacy_families(text).is_empty() {
        warnings.insert(
            "the save program reports rules of the backend legacy, which are not in its output\n\
             hint: save them with iptables-legacy-save; the kernel applies both"
                .to_owned(),
        );
    }
    for line in text.lines().filter_map(|line| line.strip_prefix('#')) {
        warnings.extend(Incompatible::of(line).map(|found| match found {
            Incompatible::BaseChains(table) => {
                format!(
                    "nft has base chains in the {table} table that the save program does not list"
                )
            }
            Incompatible::Table(table) => format!(
                "the save program could not read the {table} table: nft has rules in it that \
                 iptables cannot express"
            ),
        }));
    }
    warnings.into_iter().collect()
}

/// Returns the tables that `iptables-save` could not read.
pub(super) fn unreadable_tables(text: &str) -> BTreeSet<Table> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    let unreadable = lines.filter_map(|line| match Incompatible::of(line)? {
        Incompatible::Table(name) => Table::from_name(name),
        Incompatible::BaseChains(_) => None,
    });
    unreadable.collect()
}

/// Part of the ruleset of nft that `iptables-save` leaves out, with the name of its table.
enum Incompatible<'t> {
    /// Chains with hooks of their own.
    BaseChains(&'t str),
    /// The whole table.
    Table(&'t str),
}

impl<'t> Incompatible<'t> {
    /// Parses a comment of `iptables-save`, without its `#`.
    fn of(line: &'t str) -> Option<Self> {
        let (_, rest) = line.split_once("able `")?;
        let (table, rest) = rest.split_once('\'')?;
        if !rest.contains("incompatible") {
            return None;
        }
        Some(if rest.contains("base-chains") {
            Self::BaseChains(table)
        } else {
            Self::Table(table)
        })
    }
}

/// Converts the output of `iptables -S`, of one or more tables. Returns the text with the number of
/// the original line of each of its lines; `None` for any other text.
fn listing_as_save(text: &str) -> Option<(String, Vec<usize>)> {
    let is_policy = |line: &str| line.starts_with("-P ");
    if !text.lines().any(is_policy) || text.lines().any(|line| line.starts_with('*')) {
        return None;
    }
    let numbered: Vec<(usize, &str)> = text.lines().enumerate().collect();
    let mut converted = Converted::default();
    let mut is_open = false;
    for (at, (number, line)) in numbered.iter().enumerate() {
        let was_policy = at > 0
            && numbered
                .get(at - 1)
                .is_some_and(|(_, line)| is_policy(line));
        if is_policy(line) && !was_policy {
            if is_open {
                converted.push(*number, "COMMIT");
            }
            let policies = numbered.iter().skip(at).map(|(_, line)| *line);
            let table = table_of(policies.take_while(|line| is_policy(line)))?;
            converted.push(number + 1, &format!("*{table}"));
            is_open = true;
        }
        converted.push(number + 1, line);
    }
    converted.push(numbered.len(), "COMMIT");
    Some((converted.text, converted.numbers))
}

/// Text and the original numbers of its lines.
#[derive(Default)]
struct Converted {
    text: String,
    numbers: Vec<usize>,
}

impl Converted {
    fn push(&mut self, number: usize, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.numbers.push(number);
    }
}

/// Returns the table that has the built-in chains of these policies.
fn table_of<'l>(policies: impl Iterator<Item = &'l str>) -> Option<&'static str> {
    let names = policies.filter_map(|line| line.split_whitespace().nth(1));
    let names: BTreeSet<&str> = names.collect();
    let has = |name| names.contains(name);
    match (has("PREROUTING"), has("FORWARD"), has("POSTROUTING")) {
        (true, true, true) => Some(Table::Mangle.as_str()),
        (_, false, true) => Some(Table::Nat.as_str()),
        (false, true, false) => Some(Table::Filter.as_str()),
        (true, false, false) => Some("raw"),
        _ => None,
    }
}

/// Splits a text by family. Rules of the other family become blank lines, so that lines keep their
/// numbers.
fn by_family(text: &str) -> Vec<(IpFamily, Cow<'_, str>)> {
    let programs: BTreeSet<IpFamily> = text.lines().filter_map(writer).collect();
    match programs.first() {
        None => vec![(guess(text), Cow::Borrowed(text))],
        Some(only) if programs.len() == 1 => vec![(*only, Cow::Borrowed(text))],
        Some(_) => IpFamily::ALL
            .map(|family| (family, part(text, family)))
            .into(),
    }
}

fn part(text: &str, family: IpFamily) -> Cow<'_, str> {
    let mut part = String::new();
    let mut current = None;
    for line in text.lines() {
        current = writer(line).or(current);
        if current == Some(family) {
            part.push_str(line);
        }
        part.push('\n');
    }
    Cow::Owned(part)
}

/// Returns the family of the program that wrote the lines after a header.
fn writer(line: &str) -> Option<IpFamily> {
    let program = line.strip_prefix("# Generated by ")?;
    if program.starts_with("ip6tables") {
        Some(IpFamily::V6)
    } else {
        // The header of `xtables-save` 1.8.2 does not name the family.
        program.starts_with("iptables").then_some(IpFamily::V4)
    }
}

/// Guesses the family by addresses and protocols; without any of IPv6 it is IPv4.
fn guess(text: &str) -> IpFamily {
    let is_address = |word: &str| {
        let address = word.split('/').next().unwrap_or_default();
        address.contains("::") && address.parse::<std::net::Ipv6Addr>().is_ok()
    };
    let is_v6 = |line: &str| {
        !line.starts_with(['#', ':', '*'])
            && line.split(' ').any(|word| {
                matches!(word, "ipv6-icmp" | "icmp6-port-unreachable") || is_address(word)
            })
    };
    if text.lines().any(is_v6) {
        IpFamily::V6
    } else {
        IpFamily::V4
    }
}

#[cfg(test)]
#[path = "tests/dump.rs"]
mod tests;
