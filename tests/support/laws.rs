//! The laws of the properties, checked at every step of a history on a fake kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::support::rules::{own_rules, tree_chains};

use deltaproxy::testing::host::{Fake, Fault, RestoreError};
use deltaproxy::testing::model::{Services, Topology, TrafficPolicy};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{
    Counter, LocalDetector, Options, PartialRestore, RuleCounts, ServiceTotals, TreeThresholds,
    flattened, is_service_chain,
};
use deltaproxy::testing::rules::{Match, Rule, RuleSet, Table};
use deltaproxy::testing::ruleset::KUBE_PROXY_CANARY;
use deltaproxy::testing::select::{self, EndpointGroups};
use deltaproxy::testing::sync::{
    Attempt, Failure, FullReason, Scope, SyncResult, Syncer, SyncerOptions,
};
use deltaproxy::testing::tracker::Tracker;

use crate::cluster::{Dice, World, any_machine, any_settings};

/// Whether two rule sets may differ in comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comments {
    Compared,
    Ignored,
}

/// What a history is played with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) partial: PartialRestore,
    /// Above how many endpoints a cluster is large.
    pub(crate) threshold: usize,
    pub(crate) dispatch: TreeThresholds,
}

/// A syncer, its kernel, and the cluster that it follows.
pub(crate) struct Play {
    syncer: Syncer<Fake>,
    options: SyncerOptions,
    world: World,
    machine: Vec<IpAddr>,
    /// The last sync failed: chains that it may have written are written again.
    has_failed: bool,
    /// The rules in the kernel were compared while the cluster was a large one.
    pub(crate) was_large: bool,
}

/// Chains of deleted Services, of this and of an older kube-proxy, and third-party chains.
const LEFT_BEHIND: &str = "\
*filter
:cali-INPUT - [0:0]
-A INPUT -j cali-INPUT
COMMIT
*nat
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]
:KUBE-XLB-CCCCCCCCCCCCCCCC - [0:0]
:KUBE-KUBELET-KUBE_PROXY_CANARY - [0:0]
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-BBBBBBBBBBBBBBBB
-A KUBE-XLB-CCCCCCCCCCCCCCCC -j KUBE-SVC-AAAAAAAAAAAAAAAA
COMMIT
";

/// The part of it that no sync may change.
const FOREIGN: &str = "\
*filter
:cali-INPUT - [0:0]
-A INPUT -j cali-INPUT
COMMIT
*nat
:KUBE-KUBELET-KUBE_PROXY_CANARY - [0:0]
COMMIT
";

impl Play {
    pub(crate) fn of(setting: u64, family: IpFamily, shape: Shape) -> Self {
        let mut render_settings = any_settings(&mut Dice::new(setting), family);
        render_settings.fixed.large_cluster_endpoints = shape.threshold;
        render_settings.fixed.tree_thresholds = shape.dispatch;
        let options = SyncerOptions {
            render_settings,
            partial_restore: shape.partial,
            full_sync_interval: Duration::from_secs(3600),
        };
        let world = World::empty(family);
        Self {
            syncer: syncer(holding(LEFT_BEHIND), &world, &options),
            options,
            world,
            machine: Vec::new(),
            has_failed: false,
            was_large: false,
        }
    }

    /// Plays the edits, with a sync after every few of them.
    pub(crate) fn through(mut self, edits: &[u64]) -> Self {
        for seed in edits {
            let mut dice = Dice::new(*seed);
            for change in self.world.edit(&mut dice) {
                self.syncer.tracker.apply(change);
            }
            if dice.chance(40) {
                self.disturb(&mut dice);
                let is_applied = self.sync() == SyncResult::Applied;
                // Not each time: a verification renders all Services. A fault that is still to come
                // is for a sync.
                if is_applied && !self.kernel().has_faults() && dice.chance(10) {
                    assert_eq!(verified(&mut self.syncer), "");
                    self.writes_what_the_kernel_has();
                }
            }
        }
        self
    }

    /// Law 11: the rules that are written from memory are those in the kernel, from the first entry
    /// jump to the last tree chain. The kernel has more: third-party chains and rules.
    fn writes_what_the_kernel_has(&mut self) {
        let options = self.syncer.applied_options().unwrap();
        let endpoints = totals_of(&self.syncer.tracker, options).endpoints;
        self.was_large |= endpoints > options.large_cluster_endpoints;
        let mut text = Vec::new();
        assert!(
            self.syncer
                .write_applied(|piece| text.extend_from_slice(piece))
        );
        let text = String::from_utf8(text).unwrap();
        let (written, kernel) = (RuleSet::parse(&text).unwrap(), self.rules());
        for table in Table::ALL {
            for (name, chain) in written.chains(table) {
                let found = kernel.chain(table, name).expect(name);
                assert_eq!(
                    own_rules(&chain.rules),
                    own_rules(&found.rules),
                    "{table} {name}"
                );
            }
        }
        for (name, _) in kernel.chains(Table::Nat) {
            let is_written = written.chain(Table::Nat, name).is_some();
            assert!(is_written || !is_service_chain(name), "{name}");
        }
    }

    /// Law 1, partial = full.
    pub(crate) fn ends_like_a_full_restore(&mut self, comments: Comments) {
        while self.sync() == SyncResult::Failed {}
        // A search that finds the kernel as it should be succeeds without a restore.
        self.kernel().clear_faults();
        self.goes_there_and_back();
        self.is_quiet();
        self.writes_what_the_kernel_has();
        self.finds_every_edit(comments);
        let mut fresh = syncer(holding(FOREIGN), &self.world, &self.options);
        assert_eq!(once(&mut fresh, &self.machine).0, SyncResult::Applied);
        let (ours, theirs) = (self.rules(), fresh.iptables().rules());
        assert_same(&ours, &theirs, comments);
        assert_eq!(RuleSet::parse(&ours.to_save_text()).unwrap(), ours);
        self.is_taken_over(&theirs);
    }

    /// Law 9: a restart ends like a full restore, whatever another program changed meanwhile, and
    /// writes nothing if nothing was changed.
    fn is_taken_over(&self, fresh: &RuleSet) {
        let restart = |rules: &RuleSet| {
            let kernel = Fake::holding(rules.clone());
            let mut syncer = syncer(kernel, &self.world, &self.options);
            let (end, attempts) = once(&mut syncer, &self.machine);
            assert_eq!((end, attempts.len()), (SyncResult::Applied, 1));
            assert_same(&syncer.iptables().rules(), fresh, Comments::Compared);
            (attempts[0].scope, syncer.iptables().take_payloads())
        };
        restart(&self.rules());
        assert_eq!(restart(fresh), (Scope::Adoption, Vec::new()));
        let mut dice = Dice::new(fresh.rule_count(Table::Nat) as u64);
        for _ in 0..8 {
            restart(&tampered(fresh, &mut dice));
        }
    }

    /// Law 5: changes and their reverse leave nothing to do.
    fn goes_there_and_back(&mut self) {
        let before = self.world.clone();
        let mut dice = Dice::new(before.services.len() as u64);
        let mut changes = Vec::new();
        for _ in 0..6 {
            changes.append(&mut self.world.edit(&mut dice));
        }
        changes.append(&mut self.world.changes_to(&before));
        for change in changes {
            self.syncer.tracker.apply(change);
        }
        self.world = before;
        assert!(!self.syncer.tracker.has_pending());
    }

    /// Law 10: a verification finds the edit of any single rule, and the next sync takes it back,
    /// with the comments of the present size of the cluster.
    fn finds_every_edit(&mut self, comments: Comments) {
        let before = self.rules();
        let mut dice = Dice::new(before.rule_count(Table::Nat) as u64);
        for _ in 0..3 {
            let text = before.to_save_text();
            let mut lines: Vec<&str> = text.lines().collect();
            let ours = |line: &&usize| lines[**line].starts_with("-A KUBE-");
            let all: Vec<usize> = (0..lines.len()).collect();
            let rules: Vec<usize> = all.iter().filter(ours).copied().collect();
            let at = dice.pick(&rules);
            let changed = lines[at].replacen("-j ", "-m ttl --ttl-eq 7 -j ", 1);
            if dice.chance(50) || changed == lines[at] {
                lines.remove(at);
            } else {
                lines[at] = &changed;
            }
            let edited = RuleSet::parse(&(lines.join("\n") + "\n")).unwrap();
            self.kernel().set_rules(edited);
            assert_ne!(
                verified(&mut self.syncer),
                "",
                "{}",
                text.lines().nth(at).unwrap()
            );
            assert_eq!(once(&mut self.syncer, &self.machine).0, SyncResult::Applied);
            assert_same(&self.rules(), &before, comments);
            assert_eq!(verified(&mut self.syncer), "");
        }
        self.kernel().take_payloads();
    }

    /// Things that happen to a node.
    fn disturb(&mut self, dice: &mut Dice) {
        if dice.chance(10) {
            self.machine = any_machine(dice, self.world.family);
        }
        if dice.chance(3) {
            self.kernel().set_rules(holding(FOREIGN).rules());
            self.syncer.force_full(FullReason::Flushed);
        }
        let faults = dice.pick(&[0, 0, 0, 0, 0, 0, 1, 2]);
        (0..faults).for_each(|_| self.kernel().inject(Fault::Restore));
        if dice.chance(3) {
            self.kernel().inject(Fault::Save);
        }
    }

    fn sync(&mut self) -> SyncResult {
        let before = self.rules();
        let (end, attempts) = once(&mut self.syncer, &self.machine);
        let payloads = self.kernel().take_payloads();
        let after = self.rules();
        if end == SyncResult::Applied {
            assert!(!self.syncer.tracker.has_pending());
            assert_ordered(&after);
            let is_partial = attempts.len() == 1 && attempts[0].scope == Scope::Partial;
            let is_minimal = self.options.partial_restore == PartialRestore::ChangedChains;
            if is_partial && is_minimal && !self.has_failed {
                for payload in &payloads {
                    assert_minimal(payload, &before, &after);
                }
            }
        }
        self.has_failed = end == SyncResult::Failed;
        end
    }

    /// Law 6: nothing changed, so nothing is written.
    fn is_quiet(&mut self) {
        let before = self.rules();
        let (end, attempts) = once(&mut self.syncer, &self.machine);
        assert_eq!((end, attempts.len()), (SyncResult::Applied, 1));
        assert_eq!(attempts[0].scope, Scope::Partial);
        let payloads = self.kernel().take_payloads();
        if self.options.partial_restore == PartialRestore::ChangedChains {
            assert_eq!(payloads, Vec::<String>::new());
            assert_eq!(self.rules(), before);
        } else {
            // Writes the shared chains in order, also after a search that wrote single rules.
            assert_same(&self.rules(), &before, Comments::Compared);
        }
    }

    fn kernel(&self) -> &Fake {
        self.syncer.iptables()
    }

    fn rules(&self) -> RuleSet {
        self.kernel().rules()
    }
}

/// Changes by another program in our chains: rules removed, doubled, moved, changed, and left over.
fn tampered(rules: &RuleSet, dice: &mut Dice) -> RuleSet {
    let text = rules.to_save_text();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..dice.pick(&[1, 1, 2, 10]) {
        let ours = |line: &&usize| lines[**line].starts_with("-A KUBE-");
        let all: Vec<usize> = (0..lines.len()).collect();
        let rules: Vec<usize> = all.iter().filter(ours).copied().collect();
        let Some(&at) = rules.get(dice.below(rules.len().max(1))) else {
            break;
        };
        let line = lines[at].clone();
        match dice.below(6) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, line),
            2 if lines[at + 1].starts_with("-A") => lines.swap(at, at + 1),
            3 => lines[at] = line.replacen("-j ", "-m ttl --ttl-eq 7 -j ", 1),
            4 => lines[at] = line.replacen(" 10.", " 11.", 1).replacen(" fd", " fe", 1),
            _ => {
                let chain = line.split(' ').nth(1).unwrap();
                lines.insert(at, format!("-A {chain} -s 192.0.2.77/32 -j RETURN"));
            }
        }
    }
    if dice.chance(30) {
        let stale = ":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]";
        let nat = lines.iter().position(|line| line == "*nat").unwrap();
        lines.insert(nat + 1, stale.to_owned());
        let nat_lines = lines[nat..].iter();
        let end = nat + nat_lines.take_while(|line| *line != "COMMIT").count();
        let chain = dice.pick(&["KUBE-SVC-AAAAAAAAAAAAAAAA", "KUBE-NODEPORTS"]);
        lines.insert(end, format!("-A {chain} -j KUBE-SVC-AAAAAAAAAAAAAAAA"));
    }
    RuleSet::parse(&(lines.join("\n") + "\n")).unwrap()
}

fn holding(save: &str) -> Fake {
    Fake::holding(RuleSet::parse(save).unwrap())
}

fn syncer(kernel: Fake, world: &World, options: &SyncerOptions) -> Syncer<Fake> {
    if options.render_settings.fixed.counters == Counter::ALL.into() {
        kernel.keep_counters();
    }
    Syncer::new(kernel, world.tracker(), options.clone(), clock)
}

/// Time stands still: no sync is full because the last one is long ago.
fn clock() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant cannot be made otherwise"
    )]
    *START.get_or_init(Instant::now)
}

/// One sync with laws 4 and 7: nothing but what was injected fails, and the books are right. A sync
/// that fails settles nothing.
fn once(syncer: &mut Syncer<Fake>, machine: &[IpAddr]) -> (SyncResult, Vec<Attempt>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let dirty = syncer.tracker.pending();
    let outcome = runtime.block_on(syncer.once(machine));
    for attempt in &outcome.attempts {
        if let Err(Failure::Restore {
            error: error @ RestoreError::Rejected { .. },
            excerpt,
            ..
        }) = &attempt.result
        {
            panic!("{error}\n{excerpt:?}");
        }
    }
    let end = outcome.result();
    assert_eq!(outcome.dirty, dirty);
    match end {
        SyncResult::Applied => {
            let held = syncer.iptables().rules();
            assert_eq!(outcome.rules, counted(&held), "{}", held.to_save_text());
            assert_eq!(outcome.tree_chains, tree_chains(&held));
            let options = syncer.applied_options().unwrap();
            assert_eq!(outcome.totals, totals_of(&syncer.tracker, options));
        }
        SyncResult::Failed => {
            assert_eq!(syncer.tracker.pending(), dirty);
            assert!(outcome.applied.triggers.is_empty());
        }
    }
    (end, outcome.attempts)
}

/// The differences that a verification finds.
fn verified(syncer: &mut Syncer<Fake>) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(syncer.verify())
}

/// How many rules the chains hold that are ours.
fn counted(rules: &RuleSet) -> RuleCounts {
    let count = |table| {
        let ours = rules
            .chains(table)
            .filter(|(name, _)| name.starts_with("KUBE-"));
        ours.map(|(_, chain)| chain.rules.len() as u64).sum()
    };
    RuleCounts {
        filter: count(Table::Filter),
        nat: count(Table::Nat),
    }
}

/// What all Services amount to, each looked at anew.
fn totals_of(tracker: &Tracker, options: &Options) -> ServiceTotals {
    let mut totals = ServiceTotals::default();
    let services = tracker.all().filter_map(|(_, state)| {
        let service = state.service.as_ref()?;
        Some((state, service))
    });
    for (state, service) in services {
        let groups = EndpointGroups::of(state);
        for port in &service.ports {
            let chosen = select::select(
                groups.of_port(port).merge(),
                service,
                port,
                &Topology::default(),
            );
            let is_dropped = |policy| {
                let needs_local = policy == TrafficPolicy::Local;
                usize::from(needs_local && chosen.has_any && !chosen.has_local)
            };
            totals.endpoints += chosen.candidates.len();
            totals.internal_dropped += is_dropped(service.internal_policy);
            totals.external_dropped += is_dropped(service.external_policy);
            let endpoints = chosen.candidates.iter().map(|candidate| candidate.endpoint);
            let mut here = endpoints.filter(|one| one.is_local && one.ip != options.node_ip);
            if let LocalDetector::Cidr(pods) = &options.local_traffic {
                totals.undetected += usize::from(here.any(|one| !pods.contains(&one.ip)));
            }
        }
    }
    totals
}

/// Law 8: every chain that a partial payload names differs from before.
#[track_caller]
fn assert_minimal(payload: &str, before: &RuleSet, after: &RuleSet) {
    let mut table = Table::Filter;
    for line in payload.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = Table::from_name(name).unwrap();
        } else if let Some(header) = line.strip_prefix(':') {
            let chain = header.split(' ').next().unwrap();
            assert_ne!(
                before.chain(table, chain),
                after.chain(table, chain),
                "`{chain}` did not change:\n{payload}"
            );
        }
    }
}

/// The way to NodePorts stays last, and a NodePort's counting rule before its plain one.
#[track_caller]
fn assert_ordered(rules: &RuleSet) {
    let rules = &flattened(rules.clone());
    let services = &rules.chain(Table::Nat, "KUBE-SERVICES").unwrap().rules;
    let leads_to_node_ports = |rule: &Rule| rule.target_chain() == Some("KUBE-NODEPORTS");
    assert!(
        services
            .iter()
            .skip_while(|rule| !leads_to_node_ports(rule))
            .all(leads_to_node_ports)
    );

    let node_ports = &rules.chain(Table::Nat, "KUBE-NODEPORTS").unwrap().rules;
    for (at, counting) in node_ports.iter().enumerate() {
        let mut plain = counting.clone();
        plain.matches.retain(|one| one.name() != "nfacct");
        if plain != *counting {
            plain.destination = None;
            let found = node_ports.iter().position(|rule| *rule == plain);
            assert!(
                found.is_some_and(|found| found > at),
                "{counting} before {plain}"
            );
        }
    }
}

/// Chain by chain, so that a failure shows the one that differs.
#[track_caller]
fn assert_same(ours: &RuleSet, theirs: &RuleSet, comments: Comments) {
    // A dispatch chain may be flat on one side and a tree on the other, which has the rules of one
    // port in the order of their addresses.
    let is_tree = |rules: &RuleSet| flattened(rules.clone()) != *rules;
    let has_trees = is_tree(ours) || is_tree(theirs);
    let normal = |rules: &RuleSet| {
        let mut normal = normal(&flattened(rules.clone()), comments);
        let shared = normal
            .iter_mut()
            .filter(|((_, name), _)| SHARED.contains(&&**name));
        if has_trees {
            shared.for_each(|(_, rules)| rules.sort());
        }
        normal
    };
    let (mut ours, theirs) = (normal(ours), normal(theirs));
    for (chain, rules) in theirs {
        let held = ours.remove(&chain);
        assert_eq!(held.as_ref(), Some(&rules), "{chain:?}");
    }
    assert_eq!(ours, Normal::new());
}

const SHARED: [&str; 4] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
];

type Normal = BTreeMap<(Table, String), Vec<String>>;

/// The chains of a rule set, those that all Services share in the order of service ports: the rules
/// of one keep theirs.
fn normal(rules: &RuleSet, comments: Comments) -> Normal {
    let mut normal = Normal::new();
    for table in Table::ALL {
        assert!(rules.chain(table, KUBE_PROXY_CANARY).is_some());
        for (name, chain) in rules.chains(table) {
            let mut rules: Vec<&Rule> = chain.rules.iter().collect();
            if SHARED.contains(&name) {
                rules.sort_by_key(|rule| service_port(rule));
            }
            let shown = rules.iter().map(|rule| text(rule, comments)).collect();
            normal.insert((table, name.to_owned()), shown);
        }
    }
    assert_ordered(rules);
    normal
}

/// Whose rule of a shared chain it is: the first word of its comment, and its protocol. The ways to
/// NodePorts are of no one Service: their addresses are a set.
fn service_port(rule: &Rule) -> (String, String) {
    if rule.target_chain() == Some("KUBE-NODEPORTS") {
        return (String::new(), rule.to_string());
    }
    let comment = rule.comment().unwrap_or_default();
    let name = comment.split(' ').next().unwrap_or_default();
    let protocol = format!("{:?}", rule.protocol);
    (name.to_owned(), protocol)
}

fn text(rule: &Rule, comments: Comments) -> String {
    let mut rule = rule.clone();
    if comments == Comments::Ignored {
        rule.matches.retain(|one| !matches!(one, Match::Comment(_)));
    }
    rule.to_string()
}
