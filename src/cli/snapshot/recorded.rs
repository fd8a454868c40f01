//! Reads rules from the kernel, by one run of the save program of each family, or from dumps.
//!
//! The IP family of a dump follows from its headers, or else from its addresses.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{RuleOrigin, RuleSnapshot};
use crate::cli::terminal::Progress;
use crate::host::{BackendChoice, Binaries, RunError, Sysctls, local_addresses, other_backend};
use crate::net::IpFamily;
use crate::rules::{Backend, LineError, ParseError, RuleSet, Table};
use crate::watch::bounded;

/// Reads the rules of the kernel.
pub(in crate::cli) fn live(backend: BackendChoice) -> anyhow::Result<RuleSnapshot> {
    let _progress = Progress::start("reading the kernel's rules");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(snapshot(backend))
}

async fn snapshot(backend: BackendChoice) -> anyhow::Result<RuleSnapshot> {
    let mut snapshot = RuleSnapshot {
        node_addresses: local_addresses()?,
        ..RuleSnapshot::default()
    };
    for family in IpFamily::ALL {
        if Sysctls::default().lacks(family) {
            continue;
        }
        let read = async {
            let programs = Binaries::discover(backend, family).await?;
            let text = programs.save_all().await?;
            Ok::<_, RunError>((programs, text))
        };
        let hint = "hint: use --from-save FILE to read a dump without root";
        let (programs, text) = read
            .await
            .map_err(|error| anyhow::anyhow!("{error}\n{hint}"))?;
        let program = programs.save.to_string_lossy();
        let rules = RuleSet::parse(&text)
            .with_context(|| format!("cannot parse the output of `{program}`"))?;
        warn_of_opaque(&program, &rules);
        *snapshot.rules.get_mut(family) = rules;
        snapshot.families.insert(family);
        snapshot.origin = RuleOrigin::Live(programs.backend());
    }
    if let RuleOrigin::Live(backend) = snapshot.origin
        && !snapshot
            .families
            .iter()
            .any(|family| has_services(snapshot.rules.get(*family)))
    {
        warn_of_other_backend(backend).await;
    }
    Ok(snapshot)
}

/// Reports whether the rules contain those of a proxy.
fn has_services(rules: &RuleSet) -> bool {
    rules.chain(Table::Nat, "KUBE-SERVICES").is_some()
}

/// Warns if the backend that is shown has no rules of a proxy and the other one has.
async fn warn_of_other_backend(shown: Backend) {
    for family in IpFamily::ALL {
        if let Some(other) = other_backend(shown, family).await {
            tracing::warn!(
                "backend {shown}, which is shown, has no rules of kube-proxy; backend {other} has: \
                 use --iptables-backend={other}"
            );
            return;
        }
    }
}

/// Reads the rules of dumps.
pub(in crate::cli) fn saved(paths: &[PathBuf]) -> anyhow::Result<RuleSnapshot> {
    let _progress = Progress::start("reading a dump");
    let mut snapshot = RuleSnapshot {
        origin: RuleOrigin::Saved(paths.to_vec()),
        ..RuleSnapshot::default()
    };
    for path in paths {
        let name = path.display().to_string();
        let text = text(path)?;
        anyhow::ensure!(
            text.lines().any(has_content),
            "`{name}` contains no rules of iptables-save\n\
             hint: run iptables-save as root; it prints nothing for a family that never had rules, \
             which must be left out"
        );
        let parts = by_family(&text);
        let which = match parts.as_slice() {
            [_] => |_| String::new(),
            _ => |family: IpFamily| format!("{family} "),
        };
        for (family, text) in parts {
            anyhow::ensure!(
                snapshot.families.insert(family),
                "`{name}` contains {family} rules, and so does another file\n\
                 hint: give one file of iptables-save and one of ip6tables-save"
            );
            let rules = RuleSet::parse(&text).map_err(|error| with_hint(&name, &text, &error))?;
            warn_of_opaque(&name, &rules);
            let missing: BTreeSet<Table> = missing_tables(&text).collect();
            for table in &missing {
                tracing::warn!(
                    "`{name}` has no {}{table} table: cannot determine {}; save without -t",
                    which(family),
                    undetermined(*table)
                );
            }
            *snapshot.missing_tables.get_mut(family) = missing;
            *snapshot.rules.get_mut(family) = rules;
        }
    }
    Ok(snapshot)
}

/// Reports whether a line is neither blank nor a comment.
fn has_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn text(path: &Path) -> anyhow::Result<String> {
    let most = bounded::MAX_DUMP_BYTES;
    let bytes = if path.as_os_str() == "-" {
        bounded::read_all(std::io::stdin(), most).context("cannot read stdin")?
    } else {
        let read = bounded::read(path, most);
        read.with_context(|| format!("cannot read `{}`", path.display()))?
    };
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let breaks = bytes.iter().take(at).filter(|byte| **byte == b'\n');
        anyhow::bail!(
            "`{}`: line {} is not text\n\
             hint: decompress the file, or convert it from UTF-16, which some shells write, to UTF-8",
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

/// Returns the tables that a dump lacks. Without `-t`, every table is saved that was ever used,
/// and every proxy uses both.
fn missing_tables(text: &str) -> impl Iterator<Item = Table> {
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('*'));
    let present: BTreeSet<Table> = names.filter_map(Table::from_name).collect();
    let tables = [Table::Filter, Table::Nat].into_iter();
    tables.filter(move |table| !present.contains(table))
}

const fn undetermined(table: Table) -> &'static str {
    match table {
        Table::Filter => "rejects and drops",
        Table::Nat => "endpoints",
        Table::Mangle => "marks",
    }
}

fn with_hint(name: &str, text: &str, error: &ParseError) -> anyhow::Error {
    let hint = match error.reason {
        _ if text.lines().any(is_of_object) => {
            "use --manifests in place of --from-save: these look like Kubernetes objects"
        }
        LineError::MissingCommit => {
            "check whether the dump was cut off: the end of a table is missing"
        }
        _ => {
            "give the complete output of iptables-save, from `*filter` or so to `COMMIT`; not lines \
             that grep finds, nor the output of `iptables -S` or `iptables -L`"
        }
    };
    anyhow::anyhow!("`{name}`: {error}\nhint: {hint}")
}

/// Reports whether a line is the API version that every object has, in YAML or JSON.
fn is_of_object(line: &str) -> bool {
    let key = line.trim_start_matches([' ', '-', '{', '"']);
    key.starts_with("apiVersion:") || key.starts_with("apiVersion\"")
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

/// Warns of rules that cannot be parsed. They are not a failure, but results may be wrong because
/// of them.
fn warn_of_opaque(name: &str, rules: &RuleSet) {
    let mut opaque = rules.unparsed_rules();
    if let Some((table, chain, rule)) = opaque.next() {
        let count = 1 + opaque.count();
        tracing::warn!(
            "`{name}`: rules that cannot be parsed: {count}, the first in `{chain}` of {table}: {rule}"
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
    fn the_family_of_a_dump_is_recognized() {
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
    fn missing_tables_of_a_dump_are_found() {
        let check = |text, expected: &[Table]| {
            assert_eq!(missing_tables(text).collect::<Vec<_>>(), expected, "{text}");
        };
        check("*filter\nCOMMIT\n*nat\nCOMMIT\n", &[]);
        check("# x\n*nat\n-A X -j Y\nCOMMIT\n", &[Table::Filter]);
        check("*mangle\nCOMMIT\n*filter\nCOMMIT\n", &[Table::Nat]);
        check("*raw\nCOMMIT\n", &[Table::Filter, Table::Nat]);
    }

    #[test]
    fn one_file_may_contain_both_families() {
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
