//! Splits the text of a dump by family, and finds what `iptables-save` reports in it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::net::IpFamily;
use crate::rules::Table;

/// Rules of one family in a dump.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DumpPart<'t> {
    pub(super) family: IpFamily,
    /// Text with the line numbers of the dump.
    pub(super) text: Cow<'t, str>,
}

impl<'t> DumpPart<'t> {
    /// Splits a text by family. Rules of the other family become blank lines, so that lines keep
    /// their numbers.
    pub(super) fn split(text: &'t str) -> Vec<Self> {
        let programs: BTreeSet<IpFamily> = text.lines().filter_map(writer).collect();
        let new = |family, text| Self { family, text };
        match programs.first() {
            None => vec![new(guess(text), Cow::Borrowed(text))],
            Some(only) if programs.len() == 1 => vec![new(*only, Cow::Borrowed(text))],
            Some(_) => IpFamily::ALL
                .map(|family| new(family, part(text, family)))
                .into(),
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
