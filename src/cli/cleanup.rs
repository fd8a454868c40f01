//! `cleanup` and `run --cleanup`: removes all rules of kube-proxy and deltaproxy.
//!
//! Cleans both backends, which the daemon must never mix, and continues after failures, so that as
//! much as possible is removed.
//!
//! Upstream: `cmd/kube-proxy/app/server_linux.go`, `platformCleanup` (v1.37)

use std::collections::BTreeSet;
use std::time::Duration;

use super::runtime::runtime;
use super::terminal::{self, Progress};
use crate::config::CleanupArgs;
use crate::host::{
    BackendChoice, Binaries, Changed, Exec, IPVS_INTERFACE, IPVS_REMEDY, Iptables, RunError,
    Sysctls, all_binaries, has_interface, has_nft_table, remove_nft_table,
};
use crate::net::IpFamily;
use crate::render::{JUMPS, Removal};
use crate::rules::{Backend, Table, Text};
use crate::sync::SyncMode;
use crate::text::counted;

/// Separator between an error and its hint.
const HINT: &str = "\nhint: ";

/// Time after which the removed jumps are looked for once more. An idle deltaproxy restores them
/// within a tenth of a second, kube-proxy only within 30 seconds.
const SETTLING_TIME: Duration = Duration::from_millis(500);

/// Hint if rules come back.
const RUNNING_PROXY: &str = "a proxy still runs on this node: remove its Pod or its service first, \
                             then run `cleanup` again";

pub(super) fn cleanup(args: &CleanupArgs) -> anyhow::Result<()> {
    let mode = if args.dry_run {
        SyncMode::DryRun
    } else {
        SyncMode::Restore
    };
    everywhere(args.iptables_backend.unwrap_or_default(), mode)
}

/// Removes the rules of both backends or of the chosen one, and prints what was removed; a dry run
/// prints the payloads that would be restored.
///
/// # Errors
///
/// Something could not be removed; everything else was.
pub(super) fn everywhere(choice: BackendChoice, mode: SyncMode) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let progress = Progress::start("removing rules");
    let mut cleanup = Cleanup {
        mode,
        output: Vec::new(),
        failures: Vec::new(),
        hints: BTreeSet::new(),
        cleaned: Vec::new(),
    };
    runtime.block_on(cleanup.everywhere(choice));
    drop(progress);
    let Cleanup {
        output,
        failures,
        hints,
        ..
    } = cleanup;
    terminal::stdout(|out| Ok(output.iter().try_for_each(|text| writeln!(out, "{text}"))?))?;
    if failures.is_empty() {
        return Ok(());
    }
    let mut text = failures.join("\nerror: ");
    for hint in hints {
        text += HINT;
        text += &hint;
    }
    Err(anyhow::anyhow!(text))
}

struct Cleanup {
    mode: SyncMode,
    output: Vec<String>,
    /// Failures without duplicates.
    failures: Vec<String>,
    /// Hints, printed once for all failures.
    hints: BTreeSet<String>,
    /// Places whose jumps in nat were removed, with their iptables binaries.
    cleaned: Vec<(String, Binaries)>,
}

impl Cleanup {
    async fn everywhere(&mut self, choice: BackendChoice) {
        let mut has_programs = false;
        for family in IpFamily::ALL {
            let found = all_binaries(choice, family).await;
            let found = found.map_err(|error| {
                has_programs = true;
                self.fail(&family.to_string(), &error);
            });
            for programs in found.into_iter().flatten() {
                has_programs = true;
                let place = format!("{family} {}", programs.backend());
                self.rules(&place, programs).await;
            }
        }
        self.look_again().await;
        if !has_programs {
            let which = match choice {
                BackendChoice::Nft => "iptables-nft",
                BackendChoice::Legacy => "iptables-legacy",
                BackendChoice::Path | BackendChoice::Auto => "iptables",
            };
            self.print_note(&format!("no {which} on this host: nothing to remove"));
        }
        // They belong to no backend of iptables, so a choice of one excludes them.
        if matches!(choice, BackendChoice::Path | BackendChoice::Auto) {
            for family in IpFamily::ALL {
                self.nft_table(family);
            }
        }
        if self.output.is_empty() && self.failures.is_empty() {
            self.print_note("nothing to remove");
        }
        if has_interface(IPVS_INTERFACE) {
            self.print_note(&format!(
                "mode ipvs: `{IPVS_INTERFACE}` is not removed; {IPVS_REMEDY}"
            ));
        }
    }

    /// Removes the rules of one backend and family. Nft is read table by table, as a table that
    /// only `nft` can print must not hide the others; legacy as a whole, as reading a table would
    /// create it. If that fails at a rule that cannot be printed, all its tables exist.
    async fn rules(&mut self, place: &str, programs: Binaries) {
        let iptables = Exec::new(programs);
        if iptables.binaries().backend() == Backend::Legacy {
            let saved = iptables.binaries().save_all().await;
            if !matches!(saved, Err(RunError::Unprintable { .. })) {
                return self.saved(place, &iptables, saved).await;
            }
        }
        for table in Table::ALL {
            let saved = printable(&iptables, table).await;
            self.saved(place, &iptables, saved).await;
        }
    }

    async fn saved(&mut self, place: &str, iptables: &Exec, saved: Result<String, RunError>) {
        let family = iptables.binaries().family;
        let lacks_family = Sysctls::default().lacks(family);
        let saved = match saved {
            Ok(saved) => saved,
            Err(RunError::Failed { .. }) if lacks_family => return,
            Err(error) => return self.fail(place, &error),
        };
        for removal in Removal::of(&saved) {
            let place = format!("{place} {}", removal.table);
            match self.mode {
                SyncMode::DryRun | SyncMode::Shadow => {
                    self.print(format!("# {place}\n{}", removal.payload.trim_end()));
                }
                SyncMode::Restore => self.restore(&place, iptables, &removal).await,
            }
        }
    }

    async fn restore(&mut self, place: &str, iptables: &Exec, removal: &Removal) {
        let mut payload = Text::new(removal.payload.as_bytes());
        if let Err(error) = iptables.restore(&mut payload, None).await {
            return self.fail(place, &error);
        }
        let (jumps, chains) = (removal.jumps, removal.chains);
        if removal.table == Table::Nat && jumps > 0 {
            let programs = iptables.binaries().clone();
            self.cleaned.push((place.to_owned(), programs));
        }
        if (jumps, chains) != (0, 0) {
            let (jumps, chains) = (counted(jumps, "jump"), counted(chains, "chain"));
            self.print(format!("{place}: removed {jumps} and {chains}"));
        }
        for chain in &removal.kept {
            self.print(format!(
                "{place}: `{chain}` is emptied but kept, as third-party rules jump to it"
            ));
        }
    }

    /// Fails if a program has written removed jumps again.
    async fn look_again(&mut self) {
        if self.cleaned.is_empty() {
            return;
        }
        tokio::time::sleep(SETTLING_TIME).await;
        for (place, programs) in std::mem::take(&mut self.cleaned) {
            let iptables = Exec::new(programs);
            // It was readable before; a failure now says nothing about the rules.
            if let Ok(saved) = printable(&iptables, Table::Nat).await
                && Removal::of(&saved).iter().any(|removal| removal.jumps > 0)
            {
                self.failures
                    .push(format!("{place}: another program has written rules again"));
                self.hints.insert(RUNNING_PROXY.to_owned());
            }
        }
    }

    fn nft_table(&mut self, family: IpFamily) {
        let table = "the table of mode nftables";
        let (exists, text) = match self.mode {
            SyncMode::Restore => (
                remove_nft_table(family).map(|changed| changed == Changed::Yes),
                format!("{family}: removed {table}"),
            ),
            SyncMode::DryRun | SyncMode::Shadow => {
                (has_nft_table(family), format!("# {family}: {table}"))
            }
        };
        match exists {
            Ok(true) => self.print(text),
            Ok(false) => {}
            Err(error) => self.fail(&format!("{family}, mode nftables"), &error),
        }
    }

    fn print_note(&mut self, text: &str) {
        self.print(match self.mode {
            SyncMode::Restore => text.to_owned(),
            SyncMode::DryRun | SyncMode::Shadow => format!("# {text}"),
        });
    }

    fn print(&mut self, text: String) {
        self.output.push(text);
    }

    /// Records a failure. Without permissions, all tables of a backend fail with the same text.
    fn fail(&mut self, place: &str, error: &dyn std::error::Error) {
        let cause = error.source().map(|source| format!(": {source}"));
        let text = format!("{place}: {error}{}", cause.unwrap_or_default());
        let (text, hint) = text.split_once(HINT).unwrap_or((&text, ""));
        if !hint.is_empty() {
            self.hints.insert(hint.to_owned());
        }
        if !self.failures.iter().any(|failure| failure == text) {
            self.failures.push(text.to_owned());
        }
    }
}

/// Reads the rules of a table. If the program stops at a rule that it cannot print, tests for each
/// jump to our chains; the names of all chains precede the first rule.
async fn printable(iptables: &Exec, table: Table) -> Result<String, RunError> {
    let mut text = String::new();
    let mut take = |line: &str| text.extend([line, "\n"]);
    match iptables.save(table, &mut take).await {
        Err(RunError::Unprintable { .. }) => {}
        result => return result.map(|()| text),
    }
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        let line = format!("-A {} {}\n", jump.from, jump.rule);
        if !text.contains(&line) && iptables.has(table, jump.from, jump.rule).await? {
            text += &line;
        }
    }
    Ok(text)
}
