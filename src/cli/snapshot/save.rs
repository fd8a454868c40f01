//! Dumps. Whose rules a dump holds is told by its headers, or else by its addresses.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Origin, Snapshot};
use crate::cli::progress::Progress;
use crate::net::IpFamily;
use crate::rules::{LineError, ParseError, RuleSet, Table};
use crate::watch::bounded;

pub(in crate::cli) fn read(paths: &[PathBuf]) -> anyhow::Result<Snapshot> {
    let _progress = Progress::start("reading a dump");
    let mut snapshot = Snapshot {
        origin: Origin::Saved(paths.to_vec()),
        ..Snapshot::default()
    };
    for path in paths {
        let name = path.display().to_string();
        let text = text(path)?;
        anyhow::ensure!(
            text.lines().any(says_something),
            "`{name}` holds no rules of iptables-save; was it written?\n\
             hint: iptables-save needs root, and prints nothing of a family that never had rules; \
             leave that one out"
        );
        let parts = by_family(&text);
        let which = match parts.as_slice() {
            [_] => |_| String::new(),
            _ => |family: IpFamily| format!("{family} "),
        };
        for (family, text) in parts {
            anyhow::ensure!(
                snapshot.families.insert(family),
                "`{name}` holds {family} rules, and so does another file\n\
                 hint: one file of iptables-save, one of ip6tables-save"
            );
            let rules = RuleSet::parse(&text).map_err(|error| explained(&name, &text, &error))?;
            mention_opaque(&name, &rules);
            let unseen: BTreeSet<Table> = unseen(&text).collect();
            for table in &unseen {
                tracing::warn!(
                    "`{name}` has no {}{table} table: {}; save without -t",
                    which(family),
                    untold(*table)
                );
            }
            *snapshot.unseen.get_mut(family) = unseen;
            *snapshot.rules.get_mut(family) = rules;
        }
    }
    Ok(snapshot)
}

/// Neither blank nor a comment.
fn says_something(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn text(path: &Path) -> anyhow::Result<String> {
    let most = bounded::LARGEST_DUMP;
    let bytes = if path.as_os_str() == "-" {
        bounded::read_all(std::io::stdin(), most).context("reading stdin")?
    } else {
        let read = bounded::read(path, most);
        read.with_context(|| format!("reading `{}`", path.display()))?
    };
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let breaks = bytes.iter().take(at).filter(|byte| **byte == b'\n');
        anyhow::bail!(
            "`{}`: line {}: this is no text\n\
             hint: decompress it first; and some shells write UTF-16, where UTF-8 is wanted",
            path.display(),
            breaks.count() + 1
        );
    }
    // A comment may be in any encoding.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    })
}

/// The tables that matter and are not there. Without `-t`, every table is saved that was ever used,
/// and every proxy uses both.
fn unseen(text: &str) -> impl Iterator<Item = Table> {
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('*'));
    let seen: BTreeSet<Table> = names.filter_map(Table::from_name).collect();
    let tables = [Table::Filter, Table::Nat].into_iter();
    tables.filter(move |table| !seen.contains(table))
}

const fn untold(table: Table) -> &'static str {
    match table {
        Table::Filter => "refusals and drops cannot be told",
        Table::Nat => "who answers cannot be told",
        Table::Mangle => "marks cannot be told",
    }
}

fn explained(name: &str, text: &str, error: &ParseError) -> anyhow::Error {
    let hint = match error.reason {
        _ if text.lines().any(is_of_an_object) => {
            "these look like Kubernetes objects; --manifests reads them, instead of --from-save"
        }
        LineError::MissingCommit => "the end of a table is missing; was the dump cut off?",
        _ => {
            "a dump is all that iptables-save prints, from `*filter` or so to `COMMIT`; not the \
             lines that grep finds, nor what `iptables -S` or `iptables -L` says"
        }
    };
    anyhow::anyhow!("`{name}`: {error}\nhint: {hint}")
}

/// Every object says which version of the API it is of, in YAML and in JSON.
fn is_of_an_object(line: &str) -> bool {
    let key = line.trim_start_matches([' ', '-', '{', '"']);
    key.starts_with("apiVersion:") || key.starts_with("apiVersion\"")
}

/// The rules of each family in a text. Those of the other one are blank lines in each, so that
/// lines keep their numbers.
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

/// Whose program wrote what follows, if the line says it.
fn writer(line: &str) -> Option<IpFamily> {
    let program = line.strip_prefix("# Generated by ")?;
    if program.starts_with("ip6tables") {
        Some(IpFamily::V6)
    } else {
        // `xtables-save` of 1.8.2 does not say it.
        program.starts_with("iptables").then_some(IpFamily::V4)
    }
}

/// Without anything of IPv6 it may as well be IPv4.
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

/// Warns of rules that cannot be read. They are not a failure, but an answer may be wrong because
/// of them.
pub(super) fn mention_opaque(name: &str, rules: &RuleSet) {
    let mut opaque = rules.unparsed_rules();
    if let Some((table, chain, rule)) = opaque.next() {
        let count = 1 + opaque.count();
        tracing::warn!(
            "`{name}`: rules that cannot be read: {count}, the first in `{chain}` of {table}: {rule}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: IpFamily) {
        let families = by_family(text).into_iter().map(|(family, _)| family);
        assert_eq!(families.collect::<Vec<_>>(), [expected], "{text}");
    }

    #[test]
    fn a_dump_says_whose_rules_it_holds() {
        check("", IpFamily::V4);
        check("# Generated by iptables-save v1.8.9\n", IpFamily::V4);
        check(
            "# Generated by iptables-nft-save v1.8.4 on x\n-A X -d fd00::1\n",
            IpFamily::V4,
        );
        check("# Generated by ip6tables-save v1.8.9\n*nat\n", IpFamily::V6);
        check("*nat\n-A X -d 10.0.0.1/32 -j Y\n", IpFamily::V4);
        check(
            "# Generated by xtables-save v1.8.2\n*nat\n-A X -d fd00::1/128 -j Y\n",
            IpFamily::V6,
        );
        check("*nat\n[0:0] -A X -s fd00::/8 -j Y\n", IpFamily::V6);
        check("*nat\n-A X -m comment --comment \"a::b\"\n", IpFamily::V4);
    }

    #[test]
    fn a_table_that_was_not_saved_is_missed() {
        let check = |text, expected: &[Table]| {
            assert_eq!(unseen(text).collect::<Vec<_>>(), expected, "{text}");
        };
        check("*filter\nCOMMIT\n*nat\nCOMMIT\n", &[]);
        check("# x\n*nat\n-A X -j Y\nCOMMIT\n", &[Table::Filter]);
        check("*mangle\nCOMMIT\n*filter\nCOMMIT\n", &[Table::Nat]);
        check("*raw\nCOMMIT\n", &[Table::Filter, Table::Nat]);
    }

    #[test]
    fn both_may_be_in_one_file() {
        let text = "# Generated by iptables-save v1.8.9\n*nat\nCOMMIT\n\
            # Generated by ip6tables-save v1.8.9\n*filter\nwrong\nCOMMIT\n";
        let parts = by_family(text);
        let [(IpFamily::V4, v4), (IpFamily::V6, v6)] = parts.as_slice() else {
            panic!("{parts:?}");
        };
        assert_eq!(
            v4.trim_end(),
            "# Generated by iptables-save v1.8.9\n*nat\nCOMMIT"
        );
        assert_eq!(RuleSet::parse(v6).unwrap_err().line, 6);
    }
}
