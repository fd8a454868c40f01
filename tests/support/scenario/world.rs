//! A running scenario: the cluster, the syncer, and the kernels below.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use deltaproxy::testing::host::{Fault, Iptables, RestoreError};
use deltaproxy::testing::ingest::{self, Interner};
use deltaproxy::testing::model::{Change, ServiceName, SliceName};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{Counter, RuleCounts, ServiceTotals};
use deltaproxy::testing::rules::{Rule, RuleSet, Table, Text, TracedNode};
use deltaproxy::testing::sync::{Attempt, Failure, Outcome, Scope, SyncResult, Syncer};
use deltaproxy::testing::tracker::Tracker;
use tokio::runtime::Runtime;

use super::both::Both;
use super::options::{Options, ip, number};
use super::text::Statement;
use super::{objects, packet, recorded};

type Done = Result<(), String>;

/// Everything between two statements.
pub(crate) struct World {
    syncer: Syncer<Both>,
    runtime: Runtime,
    family: IpFamily,
    interner: Interner,
    machine: Vec<IpAddr>,
    /// Sent to the kernel by the last sync.
    sent: Vec<String>,
    rules: RuleCounts,
    totals: ServiceTotals,
    /// What a recorded kube-proxy has in its kernel by now.
    recorded: Option<RuleSet>,
    /// Rules that are not ours were put in: ours cannot simply be counted any more.
    has_foreign: bool,
    /// Blocks to write anew, by line of their statement.
    pub(crate) updates: BTreeMap<usize, (usize, Vec<String>)>,
}

impl World {
    pub(crate) fn new(options: Options, below: Both) -> Result<Self, String> {
        let external_ips = options.syncer.render_settings.fixed.external_ips;
        let tracker = Tracker::new(SystemTime::UNIX_EPOCH).with_external_ips(external_ips);
        let tracker = tracker.with_limits(options.limits);
        TIME.set(Duration::ZERO);
        TICK.set(Duration::ZERO);
        if options.keeps_counters {
            below.fake.keep_counters();
        }
        let mut world = Self {
            syncer: Syncer::new(below, tracker, options.syncer, clock),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| error.to_string())?,
            family: options.family,
            interner: Interner::default(),
            machine: Vec::new(),
            sent: Vec::new(),
            rules: RuleCounts::default(),
            totals: ServiceTotals::default(),
            recorded: None,
            has_foreign: false,
            updates: BTreeMap::new(),
        };
        world.node(&[])?;
        Ok(world)
    }

    /// Does what the statement says, or tells what is not as it says.
    pub(crate) fn obey(&mut self, statement: &Statement) -> Done {
        let (first, rest) = statement.words.split_first().ok_or("no words")?;
        match first.as_str() {
            "options" => Ok(()),
            "node" => self.node(rest),
            "machine" => self.machine(rest),
            "kernel" => self.kernel(rest, &statement.block),
            "recorded" => self.recorded(rest),
            "service" => self.service(rest),
            "endpoints" => self.endpoints(rest),
            "delete" => self.delete(rest),
            "fault" => self.fault(rest),
            "wait" => duration(rest).map(|duration| TIME.set(TIME.get() + duration)),
            "slow" => duration(rest).map(|duration| TICK.set(duration)),
            "sync" => self.sync(&rest.join(" ")),
            "payload" => self.payload(statement),
            "rules" => self.some_rules(rest, &statement.block),
            "chain" => self.whole_chain(rest, &statement.block),
            "packet" => self.packet(rest),
            "total" => self.total(rest),
            "no-local" => self.no_local(rest),
            other => Err(format!("`{other}` is no statement")),
        }
    }

    fn node(&mut self, words: &[String]) -> Done {
        let object = objects::node(words, self.family)?;
        let (node, _) = ingest::node(&object);
        self.machine.clone_from(&node.addresses);
        self.machine.push(IpAddr::from([127, 0, 0, 1]));
        self.machine.push(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
        self.syncer
            .tracker
            .apply(Change::Node(Some(Box::new(node))));
        Ok(())
    }

    fn machine(&mut self, words: &[String]) -> Done {
        self.machine = words
            .iter()
            .map(|word| ip(word))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    fn kernel(&mut self, words: &[String], block: &[String]) -> Done {
        self.has_foreign = true;
        let mut payload = Text::new(match words {
            [file] => recorded::file(file)?,
            _ => block.join("\n") + "\n",
        });
        // The program that wrote these rules has made the counters that they name.
        for counter in Counter::ALL {
            let made = self.syncer.iptables().make_counter(counter.name());
            let _ = self.runtime.block_on(made);
        }
        let restored = self.syncer.iptables().restore(&mut payload, None);
        let restored = self.runtime.block_on(restored);
        restored.map_err(|error| error.to_string())?;
        self.check_kernels()?;
        self.syncer.iptables().fake.take_payloads();
        Ok(())
    }

    fn service(&mut self, words: &[String]) -> Done {
        let object = objects::service(words)?;
        let (name, families, _) = ingest::service(&object, &mut self.interner);
        let service = match self.family {
            IpFamily::V4 => families.v4,
            IpFamily::V6 => families.v6,
        };
        let change = Change::Service(name, service.map(Box::new));
        self.syncer.tracker.apply(change);
        Ok(())
    }

    fn endpoints(&mut self, words: &[String]) -> Done {
        let object = objects::endpoints(words)?;
        let read = ingest::endpoint_slice(&object, "node-a", &mut self.interner);
        if read.family == Some(self.family) {
            let slice = read.slice.map(Box::new);
            let change = Change::Slice(read.name, slice, read.trigger);
            self.syncer.tracker.apply(change);
        }
        Ok(())
    }

    fn delete(&mut self, words: &[String]) -> Done {
        let [kind, name, rest @ ..] = words else {
            return Err("delete what?".to_owned());
        };
        let (namespace, name) = objects::namespaced(name)?;
        let change = match kind.as_str() {
            "service" => Change::Service(ServiceName::new(&namespace, &name), None),
            "endpoints" => {
                let slice = rest.first().and_then(|word| word.strip_prefix("slice="));
                let slice = slice.map_or_else(|| format!("{name}-1"), str::to_owned);
                Change::Slice(SliceName::new(&namespace, &slice), None, None)
            }
            other => return Err(format!("`{other}` cannot be deleted")),
        };
        self.syncer.tracker.apply(change);
        Ok(())
    }

    fn fault(&mut self, words: &[String]) -> Done {
        for word in words {
            self.syncer.iptables().inject(match word.as_str() {
                "restore" => Fault::Restore,
                "save" => Fault::Save,
                "locked" => Fault::Locked,
                "locked-behind-first" => Fault::LockedAfterFirst,
                "incompatible" => Fault::Unprintable,
                "counter" => Fault::Counter,
                other => return Err(format!("`{other}` does not fail")),
            });
        }
        Ok(())
    }

    fn sync(&mut self, expected: &str) -> Done {
        let before = self.held();
        let outcome = self.runtime.block_on(self.syncer.once(&self.machine));
        self.sent = self.syncer.iptables().fake.take_payloads();
        self.rules = outcome.rules;
        self.totals = outcome.totals;
        let actual = describe(&outcome, self.sent.is_empty());
        if actual != expected {
            let causes = outcome.attempts.iter().map(|attempt| &attempt.result);
            let causes: Vec<_> = causes.collect();
            let sent = self.sent.join("\n");
            return Err(format!(
                "the sync\n  expected  {expected}\n  found     {actual}\n{causes:?}\n{sent}"
            ));
        }
        for attempt in &outcome.attempts {
            if let Err(Failure::Restore {
                error: RestoreError::Rejected { .. },
                excerpt: None,
                ..
            }) = attempt.result
            {
                return Err("the rejected line is not shown".to_owned());
            }
        }
        let has_part = |attempt: &Attempt| match &attempt.result {
            Err(Failure::Restore { error, .. }) => {
                error.committed_if_independent_of_payload() > Some(0)
            }
            _ => false,
        };
        let may_change = outcome.attempts.iter().any(has_part);
        if outcome.result() == SyncResult::Failed && !may_change && self.held() != before {
            return Err("the failed sync changed rules".to_owned());
        }
        self.check_kernels()?;
        self.check_count(&outcome)?;
        self.check_record(&outcome)
    }

    /// The record of the syncer is what the kernels hold: a comparison with what they print finds
    /// nothing.
    fn check_record(&mut self, outcome: &Outcome) -> Done {
        let is_faulty = self.syncer.iptables().fake.has_faults();
        if self.has_foreign || is_faulty || outcome.result() == SyncResult::Failed {
            return Ok(());
        }
        match self.runtime.block_on(self.syncer.verify()).as_str() {
            "" => Ok(()),
            differing => Err(format!("the kernel differs from the record: {differing}")),
        }
    }

    fn check_kernels(&self) -> Done {
        self.runtime.block_on(self.syncer.iptables().check())
    }

    /// What the syncer says it has in the kernel is there.
    fn check_count(&self, outcome: &Outcome) -> Done {
        if self.has_foreign || outcome.result() == SyncResult::Failed {
            return Ok(());
        }
        let held = self.held();
        let count = |table| -> u64 {
            let chains = held.chains(table);
            let ours = chains.filter(|(name, _)| name.starts_with("KUBE-"));
            ours.map(|(_, chain)| chain.rules.len() as u64).sum()
        };
        let counted = RuleCounts {
            filter: count(Table::Filter),
            nat: count(Table::Nat),
        };
        if counted == outcome.rules {
            return Ok(());
        }
        Err(format!(
            "the syncer counts {:?}, the kernel has {counted:?}",
            outcome.rules
        ))
    }

    fn payload(&mut self, statement: &Statement) -> Done {
        if self.syncer.iptables().real.is_some() {
            // The text depends on the program; what it does to rules is compared instead.
            return Ok(());
        }
        let sent: Vec<&str> = self.sent.iter().flat_map(|text| text.lines()).collect();
        if statement.block == sent {
            return Ok(());
        }
        if std::env::var_os("UPDATE_SCENARIOS").is_some() {
            let block = sent.iter().map(|line| (*line).to_owned()).collect();
            let update = (statement.block_lines, block);
            self.updates.insert(statement.line, update);
            return Ok(());
        }
        let shown = |lines: &[&str]| format!("  {}\n", lines.join("\n  "));
        let block: Vec<&str> = statement.block.iter().map(String::as_str).collect();
        Err(format!(
            "the payload\n expected\n{} found\n{}",
            shown(&block),
            shown(&sent)
        ))
    }

    /// Rules that are there, or are not; those that are there in this order, chain by chain.
    fn some_rules(&self, words: &[String], block: &[String]) -> Done {
        let table = table(words)?;
        let held = self.held();
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for line in block {
            let (sign, rest) = line.split_once(' ').unwrap_or_default();
            let wanted = match sign {
                "+" => true,
                "-" => false,
                _ => return Err(format!("`{line}` begins with neither `+` nor `-`")),
            };
            if let Some(chain) = rest.strip_prefix(':') {
                if held.chain(table, chain).is_some() != wanted {
                    return Err(unexpected(line, table, &held));
                }
                continue;
            }
            let spec = rest
                .strip_prefix("-A ")
                .and_then(|rest| rest.split_once(' '));
            let (name, spec) = spec.ok_or_else(|| format!("`{line}` is no rule"))?;
            let rule: Rule = spec.parse().map_err(|reason| format!("{line}: {reason}"))?;
            let rules = held
                .chain(table, name)
                .map_or(&[][..], |chain| &chain.rules);
            let from = if wanted {
                seen.get(name).copied().unwrap_or(0)
            } else {
                0
            };
            let place = rules.iter().skip(from).position(|held| *held == rule);
            match place {
                Some(place) if wanted => drop(seen.insert(name, from + place + 1)),
                None if !wanted => {}
                _ => return Err(unexpected(line, table, &held)),
            }
        }
        Ok(())
    }

    fn whole_chain(&self, words: &[String], block: &[String]) -> Done {
        let table = table(words)?;
        let name = words.get(1).ok_or("which chain?")?;
        let held = self.held();
        let chain = held.chain(table, name);
        let chain = chain.ok_or_else(|| unexpected(name, table, &held))?;
        let read = |line: &String| -> Result<Rule, String> {
            let rule = line.parse();
            rule.map_err(|reason| format!("{line}: {reason}"))
        };
        let expected = block.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if chain.rules == expected {
            return Ok(());
        }
        let shown = |rules: &[Rule]| -> String {
            let lines: Vec<String> = rules.iter().map(Rule::to_string).collect();
            format!("    {}\n", lines.join("\n    "))
        };
        Err(format!(
            "{table} {name}\n  expected\n{}  found\n{}",
            shown(&expected),
            shown(&chain.rules)
        ))
    }

    fn packet(&self, words: &[String]) -> Done {
        let traced_node = TracedNode {
            addresses: self.machine.iter().copied().collect(),
            ..TracedNode::default()
        };
        packet::check(words, &self.held(), &traced_node)
    }

    fn total(&self, words: &[String]) -> Done {
        let RuleCounts { filter, nat } = self.rules;
        let actual = format!("filter={filter} nat={nat}");
        let expected = words.join(" ");
        if actual == expected {
            return Ok(());
        }
        Err(format!(
            "rules\n  expected  {expected}\n  found     {actual}"
        ))
    }

    fn no_local(&self, words: &[String]) -> Done {
        let (internal, external) = (self.totals.internal_dropped, self.totals.external_dropped);
        let actual = format!("internal={internal} external={external}");
        let expected = words.join(" ");
        if actual == expected {
            return Ok(());
        }
        Err(format!(
            "ports without local endpoints\n  expected  {expected}\n  found     {actual}"
        ))
    }

    /// kube-proxy makes its recorded restores one after the other; so did we.
    fn recorded(&mut self, words: &[String]) -> Done {
        let mut theirs = match self.recorded.take() {
            Some(rules) => rules,
            None => recorded::kernel_with_jumps()?,
        };
        for file in words {
            let applied = theirs.apply(&recorded::file(file)?);
            applied.map_err(|refused| format!("{file}: {refused:?}"))?;
        }
        recorded::compare(&theirs, &self.held())?;
        self.recorded = Some(theirs);
        Ok(())
    }

    fn held(&self) -> RuleSet {
        self.syncer.iptables().fake.rules()
    }
}

/// As `sync` statements have it.
fn describe(outcome: &Outcome, is_silent: bool) -> String {
    let attempts = outcome.attempts.iter().map(|attempt| {
        let Attempt { scope, result, .. } = attempt;
        let name = match scope {
            Scope::Full(reason) => format!("full ({})", reason.as_str()),
            Scope::Partial if is_silent => "nothing".to_owned(),
            Scope::Adoption if is_silent => "adoption of everything".to_owned(),
            Scope::Adoption => "adoption".to_owned(),
            Scope::Partial => "partial".to_owned(),
        };
        match result {
            Ok(()) => name,
            Err(_) => format!("{name} failed"),
        }
    });
    attempts.collect::<Vec<_>>().join(", then ")
}

fn unexpected(line: &str, table: Table, held: &RuleSet) -> String {
    format!("`{line}` is not so in {table}, which is in\n{held}")
}

fn table(words: &[String]) -> Result<Table, String> {
    let name = words.first().ok_or("which table?")?;
    Table::from_name(name).ok_or_else(|| format!("`{name}` is no table"))
}

fn duration(words: &[String]) -> Result<Duration, String> {
    let word = words.first().map(String::as_str).unwrap_or_default();
    let (text, unit) = match (word.strip_suffix('h'), word.strip_suffix('s')) {
        (Some(hours), _) => (hours, 3600),
        (_, Some(seconds)) => (seconds, 1),
        _ => return Err("how long?".to_owned()),
    };
    let seconds: u64 = number(text)?;
    Ok(Duration::from_secs(seconds * unit))
}

thread_local! {
    /// How long the scenario that this thread runs has waited.
    static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// How much later each look at the clock is than the one before.
    static TICK: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

fn clock() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant cannot be made otherwise"
    )]
    let origin = *ORIGIN.get_or_init(Instant::now);
    TIME.set(TIME.get() + TICK.get());
    origin + TIME.get()
}
