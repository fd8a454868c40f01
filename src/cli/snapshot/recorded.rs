//! Reads rules from the kernel, by one run of the save program of each family, or from dumps.
//!
//! Several files may have the tables of one family; none of them may be there twice.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::dump::{self, DumpPart};
use super::{RuleOrigin, RuleSnapshot};
use crate::cli::runtime::runtime;
use crate::cli::terminal::{Progress, escaped};
use crate::clock;
use crate::host::{BackendChoice, Binaries, RunError, Sysctls, local_addresses, other_rules};
use crate::inspect::catalog::RulesetSource;
use crate::net::{IpFamily, PerFamily};
use crate::rules::{Backend, LineError, ParseError, RuleSet, Table};
use crate::ruleset::KUBE_SERVICES;
use crate::watch::bounded;

/// Reads the rules of the kernel.
pub(super) fn live(backend: BackendChoice) -> anyhow::Result<RuleSnapshot> {
    let _progress = Progress::start("reading the kernel's rules");
    runtime()?.block_on(snapshot(backend))
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
        let (programs, text) = read.await?;
        // Another program's comments may have characters that a terminal acts on.
        let text = escaped(&text);
        let program = programs.save.to_string_lossy();
        let rules = RuleSet::parse(&text)
            .with_context(|| format!("cannot parse the output of `{program}`"))?;
        warn_of_unreadable(&format_args!("`{program}`"), &rules);
        for warning in dump::save_warnings(&text) {
            tracing::warn!("`{program}`: {warning}");
        }
        *snapshot.unreadable_tables.get_mut(family) = dump::unreadable_tables(&text);
        if !dump::legacy_families(&text).is_empty() {
            snapshot.families_with_legacy.insert(family);
        }
        *snapshot.sources.get_mut(family) = RulesetSource::Kernel;
        *snapshot.rules.get_mut(family) = rules;
        snapshot.families.insert(family);
        let shown = programs.backend();
        *snapshot.other_backends.get_mut(family) = other_backend(shown, family).await?;
        snapshot.origin = RuleOrigin::Live(shown);
    }
    snapshot.observed_at = Some(clock::now());
    warn_of_other_backend(&snapshot);
    Ok(snapshot)
}

/// Reads the rules of the backend that is not shown, if it has some of a proxy.
async fn other_backend(
    shown: Backend,
    family: IpFamily,
) -> anyhow::Result<Option<(Backend, RuleSet)>> {
    let Some((backend, text)) = other_rules(shown, family).await else {
        return Ok(None);
    };
    let rules = RuleSet::parse(&escaped(&text))
        .with_context(|| format!("cannot parse the {family} rules of backend {backend}"))?;
    Ok(Some((backend, rules)))
}

/// Reports whether the rules contain those of a proxy.
fn has_services(rules: &RuleSet) -> bool {
    rules.chain(Table::Nat, KUBE_SERVICES).is_some()
}

/// Warns if the backend that is not shown has rules of a proxy.
fn warn_of_other_backend(snapshot: &RuleSnapshot) {
    let others = snapshot.other_backends.pairs();
    let others = others.filter_map(|(family, other)| Some((family, other.as_ref()?.0)));
    let others: Vec<(IpFamily, Backend)> = others.collect();
    let (RuleOrigin::Live(shown), Some((_, other))) = (&snapshot.origin, others.first()) else {
        return;
    };
    let mut families = snapshot.families.iter();
    if families.any(|family| has_services(snapshot.rules.get(*family))) {
        let families = others.iter().map(|(family, _)| family.to_string());
        let families = families.collect::<Vec<_>>().join(" and ");
        tracing::warn!(
            "backend {other} has {families} rules of a proxy as well as backend {shown}, which is \
             shown; packets traverse both\n\
             hint: `deltaproxy cleanup --iptables-backend={other}` removes those of {other}"
        );
    } else {
        tracing::warn!(
            "backend {shown}, which is shown, has no rules of kube-proxy; backend {other} has: \
             use --iptables-backend={other}"
        );
    }
}

/// Reads the rules of dumps.
pub(super) fn saved(paths: &[PathBuf]) -> anyhow::Result<RuleSnapshot> {
    let _progress = Progress::start("reading a dump");
    let texts = paths
        .iter()
        .map(|path| Ok((path.display().to_string(), text(path)?)));
    dumps(RuleOrigin::Saved(paths.to_vec()), texts)
}

/// Reads the rules of dumps, each with its name.
pub(super) fn dumps(
    origin: RuleOrigin,
    texts: impl Iterator<Item = anyhow::Result<(String, String)>>,
) -> anyhow::Result<RuleSnapshot> {
    let mut snapshot = RuleSnapshot {
        origin,
        missing_tables: PerFamily::from_fn(|_| Table::ALL.into()),
        ..RuleSnapshot::default()
    };
    let mut tables = BTreeSet::new();
    for dump in texts {
        let (name, text) = dump?;
        check_content(&name, &text)?;
        for warning in dump::save_warnings(&text) {
            tracing::warn!("`{name}`: {warning}");
        }
        let with_legacy = dump::legacy_families(&text);
        snapshot.families_with_legacy.extend(with_legacy);
        for part in DumpPart::split(&text) {
            check_tables(&name, &part, &mut tables)?;
            add(&mut snapshot, &name, &part)?;
        }
    }
    for family in snapshot.families.iter().copied() {
        warn_of_unreadable(&snapshot.origin, snapshot.rules.get(family));
        let which = if snapshot.families.len() > 1 {
            format!("{family} ")
        } else {
            String::new()
        };
        let missing = snapshot.missing_tables.get(family).iter();
        for (table, undetermined) in
            missing.filter_map(|table| Some((table, undetermined(*table)?)))
        {
            tracing::warn!(
                "{} has no {which}{table} table: cannot determine {undetermined}; save without -t",
                snapshot.origin
            );
        }
    }
    Ok(snapshot)
}

/// Checks that a file is a dump of iptables.
fn check_content(name: &str, text: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        text.lines().any(has_content),
        "`{name}` contains no rules of iptables-save\n\
         hint: run iptables-save as root; it prints nothing for a family that never had rules, \
         which must be left out"
    );
    let mut nft = text.lines().filter(|line| is_of_nft(line)).peekable();
    if nft.peek().is_some() {
        let is_proxys = |line: &str| line.split_whitespace().nth(2) == Some("kube-proxy");
        let mode = if nft.any(is_proxys) {
            "; kube-proxy runs in nftables mode, whose rules are not supported"
        } else {
            ""
        };
        anyhow::bail!(
            "`{name}` is the output of nft, not of iptables-save{mode}\n\
             hint: give the output of iptables-save"
        );
    }
    Ok(())
}

/// Reports whether a line begins a table in the output of `nft list ruleset`.
fn is_of_nft(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    matches!(words.as_slice(), ["table", "ip" | "ip6" | "inet", _, "{"])
}

/// Checks that no table is there twice; `known` are those of earlier files. Rules of two hosts, or
/// of two backends of one, do not make up one ruleset.
fn check_tables(
    name: &str,
    part: &DumpPart<'_>,
    known: &mut BTreeSet<(IpFamily, String)>,
) -> anyhow::Result<()> {
    let family = part.family;
    if let Some(table) = part.repeated_table() {
        anyhow::bail!(
            "`{name}` contains the {family} {table} table twice\n\
             hint: give the dump of one host and one backend only"
        );
    }
    let own: BTreeSet<&str> = part.tables().collect();
    for table in own {
        anyhow::ensure!(
            known.insert((family, table.to_owned())),
            "`{name}` contains the {family} {table} table, and so does another file\n\
             hint: give one file of iptables-save and one of ip6tables-save"
        );
    }
    Ok(())
}

/// Adds the rules of one family.
fn add(snapshot: &mut RuleSnapshot, name: &str, part: &DumpPart<'_>) -> anyhow::Result<()> {
    let (family, text) = (part.family, &part.text);
    snapshot.families.insert(family);
    let missing = snapshot.missing_tables.get_mut(family);
    missing.retain(|table| part.tables().all(|name| name != table.as_str()));
    let unreadable = snapshot.unreadable_tables.get_mut(family);
    unreadable.extend(dump::unreadable_tables(text));
    if RulesetSource::of_text(text) == RulesetSource::Kernel {
        *snapshot.sources.get_mut(family) = RulesetSource::Kernel;
    }
    snapshot.counters.get_mut(family).add_text(text);
    let rules = snapshot.rules.get_mut(family);
    rules
        .add_tables(text)
        .map_err(|error| with_hint(name, text, &error))?;
    Ok(())
}

/// Reports whether a line is neither blank nor a comment.
fn has_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn text(path: &Path) -> anyhow::Result<String> {
    let most = bounded::MAX_DUMP_BYTES;
    let bytes = if path.as_os_str() == "-" {
        let read = bounded::read_all(std::io::stdin(), most);
        read.context("cannot read stdin")?
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
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    // Rules and names are printed as they are in the dump.
    Ok(escaped(&text.replace("\r\n", "\n")).into_owned())
}

/// Returns what the rules of a table decide. Without `-t`, every table is saved that was ever used;
/// a node may do without mangle.
const fn undetermined(table: Table) -> Option<&'static str> {
    match table {
        Table::Filter => Some("rejects and drops"),
        Table::Nat => Some("endpoints"),
        Table::Mangle => None,
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
             that grep finds, nor the output of `iptables -S` or `-L`"
        }
    };
    anyhow::anyhow!("`{name}`: {error}\nhint: {hint}")
}

/// Reports whether a line is the API version that every object has, in YAML or JSON.
fn is_of_object(line: &str) -> bool {
    let key = line.trim_start_matches([' ', '-', '{', '"']);
    key.starts_with("apiVersion:") || key.starts_with("apiVersion\"")
}

/// Warns of the rules that cannot be parsed, and says why and what is unknown because of them. They
/// are neither a failure nor missing: the kernel has them.
fn warn_of_unreadable(origin: &impl Display, rules: &RuleSet) {
    if let Some(text) = warning(rules) {
        tracing::warn!("{origin}: {text}");
    }
}

fn warning(rules: &RuleSet) -> Option<String> {
    let unreadable: Vec<_> = rules.unparsed_rules().collect();
    let (table, chain, first) = unreadable.first()?;
    let count = unreadable.len();
    let mut text =
        format!("rules that cannot be parsed: {count}, the first in `{chain}` of {table}: {first}");
    if unreadable.iter().any(|(table, ..)| *table == Table::Nat) {
        text.push_str(
            "; their Services and endpoints are unknown, and unreferenced chains are not determined",
        );
    }
    text.push_str("\nhint: save the rules again as plain text, with complete lines and addresses");
    Some(text)
}
