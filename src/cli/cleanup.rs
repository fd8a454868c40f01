//! `cleanup`, and `run --cleanup`: no rule of a proxy for Services is left.
//!
//! Apart from the daemon because it wants both backends, which the daemon must never mix, and
//! because it goes on when something fails: whoever cleans up wants to be rid of as much as
//! possible.
//!
//! Upstream: `cmd/kube-proxy/app/server_linux.go`, `platformCleanup` (v1.36)

use std::collections::BTreeSet;

use super::output;
use super::progress::Progress;
use crate::config::CleanupArgs;
use crate::host::{
    BackendChoice, Changed, Exec, IPVS_INTERFACE, IPVS_REMEDY, Iptables, Options, Programs,
    RunError, Sysctls, all_programs, has_interface, has_nft_table, remove_nft_table,
};
use crate::net::IpFamily;
use crate::render::{JUMPS, Removal};
use crate::rules::{Backend, Table, Text};

/// What leads from an error to its way out.
const HINT: &str = "\nhint: ";

/// Whether it is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Rules are removed.
    Do,
    /// What would be restored is printed.
    Show,
}

/// `cleanup`.
pub(super) fn cleanup(args: &CleanupArgs) -> anyhow::Result<()> {
    let step = if args.dry_run { Step::Show } else { Step::Do };
    everywhere(args.backend(), step)
}

/// Removes the rules of both backends, or of the one that is chosen, and says which.
///
/// # Errors
///
/// Something could not be removed; everything else was.
pub(super) fn everywhere(choice: BackendChoice, step: Step) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let progress = Progress::start("removing rules");
    let mut cleaning = Cleaning {
        step,
        said: Vec::new(),
        failures: Vec::new(),
        hints: BTreeSet::new(),
    };
    runtime.block_on(cleaning.everywhere(choice));
    drop(progress);
    let Cleaning {
        said,
        failures,
        hints,
        ..
    } = cleaning;
    output::stdout(|out| Ok(said.iter().try_for_each(|text| writeln!(out, "{text}"))?))?;
    if failures.is_empty() {
        return Ok(());
    }
    let mut told = failures.join("\nerror: ");
    for hint in hints {
        told += HINT;
        told += &hint;
    }
    Err(anyhow::anyhow!(told))
}

/// A cleaning under way.
struct Cleaning {
    step: Step,
    /// What was done, or would be.
    said: Vec<String>,
    /// What was not, each once.
    failures: Vec<String>,
    /// How that is mended, said once for all failures.
    hints: BTreeSet<String>,
}

impl Cleaning {
    async fn everywhere(&mut self, choice: BackendChoice) {
        let mut has_programs = false;
        for family in IpFamily::ALL {
            for programs in all_programs(choice, family).await {
                has_programs = true;
                let place = format!("{family} {}", programs.backend());
                self.rules(&place, programs).await;
            }
        }
        if !has_programs {
            let which = match choice {
                BackendChoice::Nft => "iptables-nft",
                BackendChoice::Legacy => "iptables-legacy",
                BackendChoice::Path | BackendChoice::Auto => "iptables",
            };
            self.tell(&format!("no {which} on this machine: nothing to remove"));
        }
        // They are of no backend of iptables: who asks for one does not mean them.
        if matches!(choice, BackendChoice::Path | BackendChoice::Auto) {
            for family in IpFamily::ALL {
                self.nft_table(family);
            }
        }
        if self.said.is_empty() && self.failures.is_empty() {
            self.tell("nothing to remove");
        }
        if has_interface(IPVS_INTERFACE) {
            self.tell(&format!(
                "mode ipvs: `{IPVS_INTERFACE}` stays; {IPVS_REMEDY}"
            ));
        }
    }

    /// Nft is read table by table, as one that only `nft` can show must not hide the others; legacy
    /// as a whole, as asking for a table would make it. If that fails at a rule that cannot be
    /// printed, all its tables are there.
    async fn rules(&mut self, place: &str, programs: Programs) {
        let iptables = Exec::new(programs, Options::default());
        if iptables.programs().backend() == Backend::Legacy {
            let saved = iptables.programs().save_all().await;
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
        let family = iptables.programs().family;
        let is_lacking = Sysctls::default().lacks(family);
        let saved = match saved {
            Ok(saved) => saved,
            Err(RunError::Failed { .. }) if is_lacking => return,
            Err(error) => return self.fail(place, &error),
        };
        for removal in Removal::of(&saved) {
            let place = format!("{place} {}", removal.table);
            match self.step {
                Step::Show => self.say(format!("# {place}\n{}", removal.payload.trim_end())),
                Step::Do => self.restore(&place, iptables, &removal).await,
            }
        }
    }

    async fn restore(&mut self, place: &str, iptables: &Exec, removal: &Removal) {
        let mut payload = Text::new(removal.payload.as_bytes());
        if let Err(error) = iptables.restore(&mut payload).await {
            return self.fail(place, &error);
        }
        let (jumps, chains) = (removal.jumps, removal.chains);
        if (jumps, chains) != (0, 0) {
            let (jumps, chains) = (count(jumps, "jump"), count(chains, "chain"));
            self.say(format!("{place}: removed {jumps} and {chains}"));
        }
        for chain in &removal.kept {
            self.say(format!(
                "{place}: `{chain}` is emptied and stays, as rules of others lead to it"
            ));
        }
    }

    fn nft_table(&mut self, family: IpFamily) {
        let table = "the table of mode nftables";
        let (is_there, said) = match self.step {
            Step::Do => (
                remove_nft_table(family).map(|changed| changed == Changed::Yes),
                format!("{family}: removed {table}"),
            ),
            Step::Show => (has_nft_table(family), format!("# {family}: {table}")),
        };
        match is_there {
            Ok(true) => self.say(said),
            Ok(false) => {}
            Err(error) => self.fail(&format!("{family}, mode nftables"), &error),
        }
    }

    /// Words, where a payload may stand as well.
    fn tell(&mut self, text: &str) {
        self.say(match self.step {
            Step::Do => text.to_owned(),
            Step::Show => format!("# {text}"),
        });
    }

    fn say(&mut self, text: String) {
        self.said.push(text);
    }

    /// All tables of a set of programs fail alike if the first does so for want of rights.
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

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Rules of a table; behind a rule that the program cannot print, at least the jumps to our chains,
/// each of which is asked for. The names of all chains are printed before the first rule.
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
