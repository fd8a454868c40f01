//! Reads listings of the rules in the kernel, and compares the *guarded* chains, which every
//! Service depends on: fixed chains, canaries, and the built-in chains with entry jumps.
//!
//! Listings are read line by line, so that the text of a large cluster's rules is never whole in
//! memory. There are two readers of the same lines, because a full restore does not need the rules:
//!
//! - [`LiveChains`]: names of Service chains, third-party references to them, and entry jumps.
//!   Enough for a full restore; comparisons use it as well.
//! - [`LiveRules`]: a digest of the rules of each chain. For a comparison with rendered or recorded
//!   rules.
//!
//! The check of the guarded chains is a sample of the table: it does not read the chains that hold
//! rules of Services, but a flush or deletion of the table also removes rules and chains that it
//! does read.
//!
//! Differs from upstream: kube-proxy checks only an empty canary chain of the mangle table, so
//! that a flush of the nat table, or one that keeps the chains (`iptables -F`), goes unnoticed for
//! up to an hour. In exchange, kube-proxy writes the fixed chains again at every sync.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use super::fixed_chains;
use super::options::Options;
use crate::rules::{Rule, RulesDigest, RulesHasher, Table};
use crate::ruleset::{
    ChainRole, DispatchChain, DispatchForm, FILTER_CHAINS, JUMPS, Jump, KUBE_FIREWALL,
    KUBE_FORWARD, KUBE_PROXY_CANARY, NAT_CHAINS, ServiceChain, is_proxy_chain, is_service_chain,
    jumps_for_one_destination, tree_of,
};

/// Chains and entry jumps in the kernel. From them follow the stale chains that a full restore
/// deletes or empties, and the entry jumps that it inserts. The default value is for a kernel of
/// which no table was read: nothing is known to exist.
#[derive(Debug, Clone, Default)]
pub struct LiveChains {
    service_chains: BTreeSet<ServiceChain>,
    /// Service chains whose names [`ServiceChain`] cannot represent: of a kind that only old
    /// releases write, or with a malformed hash. A full restore deletes them, except those that
    /// third-party rules reference.
    unparsed_chains: BTreeSet<Box<str>>,
    /// Tree chains, by table.
    tree_chains: BTreeSet<(Table, Box<str>)>,
    /// Service and tree chains that third-party rules reference, or may reference. The kernel
    /// rejects their deletion, and with it the whole payload.
    referenced: BTreeSet<Box<str>>,
    /// The chain `KUBE-FIREWALL` exists.
    pub(crate) has_kube_firewall: bool,
    /// Tables whose content is known: read, or assumed by [`Self::assumed`].
    read: BTreeSet<Table>,
    /// Rules of built-in chains that may be entry jumps, with table and chain.
    jump_rules: Vec<(Table, Box<str>, Rule)>,
    /// Entry jumps that are known to exist without a listing of their chain.
    known_jumps: Vec<&'static Jump>,
}

impl LiveChains {
    /// Reads all of what `iptables-save -t TABLE` printed.
    pub fn read_table(&mut self, table: Table, output: &str) {
        output.lines().for_each(|line| self.read_line(table, line));
        self.note_read(table);
    }

    /// Returns the state of a kernel with these chains and all entry jumps except `missing`, as if
    /// it was read.
    pub(super) fn assumed(
        service_chains: BTreeSet<ServiceChain>,
        tree_chains: BTreeSet<(Table, Box<str>)>,
        missing: &[&'static Jump],
    ) -> Self {
        let is_there = |jump: &&'static Jump| !missing.contains(jump);
        Self {
            service_chains,
            tree_chains,
            has_kube_firewall: true,
            read: Table::ALL.into(),
            known_jumps: JUMPS.iter().filter(is_there).collect(),
            ..Self::default()
        }
    }

    /// Reads one line of what `iptables-save -t TABLE` printed. A rule that cannot be parsed does
    /// not count as an entry jump, so that the jump is written again.
    pub fn read_line(&mut self, table: Table, line: &str) {
        if let Some(chain) = line.strip_prefix(':') {
            self.read_chain(table, chain.split(' ').next().unwrap_or_default());
        } else if let Some(rule) = line.strip_prefix("-A ") {
            self.read_rule(table, rule);
        }
    }

    /// Notes that all lines of the table were read.
    pub fn note_read(&mut self, table: Table) {
        self.read.insert(table);
    }

    /// Notes that an entry jump exists, in a table that cannot be read.
    pub fn note_jump(&mut self, jump: &'static Jump) {
        self.known_jumps.push(jump);
    }

    /// Returns the missing entry jumps, in the order in which to insert them at the top.
    pub(crate) fn missing_entry_jumps(&self, table: Table) -> impl Iterator<Item = &'static Jump> {
        JUMPS
            .iter()
            .filter(move |jump| jump.table == table && !self.has(jump))
    }

    /// Returns the Service chains that are not in `desired`, sorted by name.
    pub(crate) fn stale_chains(
        &self,
        desired: impl Iterator<Item = ServiceChain>,
    ) -> Vec<Box<str>> {
        let mut stale = self.service_chains.clone();
        for chain in desired {
            stale.remove(&chain);
        }
        let stale = stale.into_iter().map(|chain| chain.name().into());
        let mut names: Vec<Box<str>> = stale.chain(self.unparsed_chains.iter().cloned()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the tree chains of a table, sorted by name.
    pub(super) fn tree_chains(&self, table: Table) -> impl Iterator<Item = &str> {
        let chains = self.tree_chains.iter();
        let chains = chains.filter(move |(of, _)| *of == table);
        chains.map(|(_, name)| &**name)
    }

    /// Returns the Service chains whose names [`ServiceChain`] cannot represent.
    pub(super) fn unparsed_chains(&self) -> impl Iterator<Item = &str> {
        self.unparsed_chains.iter().map(|name| &**name)
    }

    /// Reports whether a stale chain can be deleted: no third-party rule references it. A full
    /// restore empties the others.
    ///
    /// Differs from upstream: one third-party reference makes every further restore of kube-proxy
    /// fail.
    pub(crate) fn can_delete(&self, chain: &str) -> bool {
        !self.referenced.contains(chain)
    }

    /// Returns the Service and tree chains that third-party rules reference, or may reference.
    pub(super) const fn referenced(&self) -> &BTreeSet<Box<str>> {
        &self.referenced
    }

    /// Reports whether the table was read, so that chains and entry jumps not found in it are
    /// missing.
    pub(crate) fn is_read(&self, table: Table) -> bool {
        self.read.contains(&table)
    }

    /// Returns the number of Service chains that were read.
    pub(crate) fn service_chain_count(&self) -> usize {
        self.service_chains.len()
    }

    /// Reports whether nat was read and has no Service chain.
    pub(crate) fn has_no_service_chain(&self) -> bool {
        self.is_read(Table::Nat) && self.service_chains.is_empty()
    }

    fn read_chain(&mut self, table: Table, name: &str) {
        match ChainRole::of(table, name) {
            ChainRole::Tree => drop(self.tree_chains.insert((table, name.into()))),
            ChainRole::Service => match ServiceChain::parse(name) {
                Some(chain) => drop(self.service_chains.insert(chain)),
                None => drop(self.unparsed_chains.insert(name.into())),
            },
            ChainRole::BuiltIn => self.has_kube_firewall |= name == KUBE_FIREWALL,
            ChainRole::Dispatch | ChainRole::Fixed | ChainRole::ThirdParty => {}
        }
    }

    /// Reads a rule of a built-in or third-party chain, which may be an entry jump, or refer to a
    /// Service or tree chain. `is_service_chain` is true for both, as their names begin alike.
    fn read_rule(&mut self, table: Table, rule: &str) {
        let Some((chain, spec)) = rule.split_once(' ') else {
            return;
        };
        let is_ours = is_service_chain(chain) || is_proxy_chain(table, chain);
        if is_ours || !(spec.contains("-j KUBE-") || spec.contains("-g KUBE-")) {
            return;
        }
        let Ok(rule) = spec.parse::<Rule>() else {
            // It may reference any Service chain that it names: a rejected deletion would make
            // every full restore fail, while a chain that is kept without need does no harm.
            let named = spec
                .split_whitespace()
                .filter(|word| is_service_chain(word));
            self.referenced.extend(named.map(Box::from));
            return;
        };
        if let Some(target) = rule
            .target_chain()
            .filter(|target| is_service_chain(target))
        {
            self.referenced.insert(target.into());
        }
        if JUMPS.iter().any(|jump| jump.from == chain) {
            self.jump_rules.push((table, chain.into(), rule));
        }
    }

    pub(crate) fn has(&self, jump: &Jump) -> bool {
        if self.known_jumps.contains(&jump) {
            return true;
        }
        let Ok(desired) = jump.rule.parse::<Rule>() else {
            return false;
        };
        self.jump_rules.iter().any(|(table, from, rule)| {
            (*table, &**from) == (jump.table, jump.from) && *rule == desired
        })
    }
}

/// Rules of the proxy's chains in the kernel: of whole tables, or by default of single chains.
#[derive(Debug, Default)]
pub struct LiveRules {
    /// Digest of the rules of each Service chain that was read, unknown for a missing one.
    chains: HashMap<ServiceChain, RulesDigest>,
    /// Dispatch and tree chains that were read, by table and name; `None` for a missing one.
    dispatch: BTreeMap<(Table, Box<str>), Option<LiveDispatchChain>>,
    /// Digests of the rules of all dispatch and tree chains.
    dispatch_rules: HashSet<(Table, RulesDigest)>,
    /// Digest of all other chains: unknown, because they are missing, if whole tables were read;
    /// `None` if only single chains were.
    others: Option<RulesDigest>,
    /// Lines of each table that a check of the guarded chains compares: canaries
    /// as `-S` prints them (`-N CHAIN`), rules of fixed chains, and entry jumps. Other rules that
    /// name a `KUBE-` chain are among them; the check ignores these.
    listings: BTreeMap<Table, String>,
    /// Chains whose names begin with `KUBE-`, without Service chains, tree chains and canaries:
    /// dispatch and fixed chains, and chains of kubelet.
    shared_and_kubelet_chains: Vec<(Table, Box<str>)>,
    /// Service chain that is being read.
    open: Option<(ServiceChain, RulesHasher)>,
}

/// Dispatch chain or tree chain in the kernel.
#[derive(Debug, Default)]
pub(super) struct LiveDispatchChain {
    rules: RulesHasher,
    /// Holds jumps to tree chains.
    has_jumps: bool,
    /// Holds a jump for several destinations, which only the root or an inner chain of a tree has.
    pub(super) is_inner: bool,
}

impl LiveDispatchChain {
    /// Adds the next rule, and returns its digest.
    fn add(&mut self, table: Table, rule: &str) -> RulesDigest {
        let digest = self.rules.add(rule);
        let target = rule.rsplit_once(" -j ").map_or("", |(_, target)| target);
        if tree_of(table, target).is_some() {
            self.has_jumps = true;
            self.is_inner |= !jumps_for_one_destination(rule);
        }
        digest
    }
}

impl LiveRules {
    /// Begins to read single chains: all others are unknown.
    pub fn of_chains() -> Self {
        Self::default()
    }

    /// Begins to read the filter and nat tables: chains that are not read are missing.
    pub fn of_tables() -> Self {
        Self {
            others: Some(RulesDigest::UNKNOWN),
            ..Self::default()
        }
    }

    /// Reads one line of what `iptables-save -t TABLE` or `-S CHAIN` printed.
    pub fn read_line(&mut self, table: Table, line: &str) {
        if let Some(header) = line.strip_prefix(':').or_else(|| line.strip_prefix("-N ")) {
            self.read_chain(table, header.split(' ').next().unwrap_or_default());
        } else if let Some((chain, rule)) = line
            .strip_prefix("-A ")
            .and_then(|rest| rest.split_once(' '))
        {
            self.read_rule(table, chain, rule, line);
        } else {
            // `COMMIT`: the next lines are of another table.
            self.close();
        }
    }

    /// Reads chains from what `-S CHAIN` printed of each.
    pub(crate) fn read_listing(&mut self, table: Table, listing: &str) {
        for line in listing.lines() {
            self.read_line(table, line);
        }
        self.close();
    }

    /// Notes that a chain is missing, or that the iptables binaries cannot print it. A listing that
    /// is read later may have it.
    pub(crate) fn note_missing(&mut self, table: Table, chain: &str) {
        if let Some(chain) = ServiceChain::parse(chain) {
            self.chains.insert(chain, RulesDigest::UNKNOWN);
        } else {
            self.dispatch.insert((table, chain.into()), None);
        }
    }

    /// Returns what is known of the rules of a Service chain.
    pub(super) fn service_chain(&self, chain: ServiceChain) -> Option<RulesDigest> {
        self.chains.get(&chain).copied().or(self.others)
    }

    /// Returns what is known of the rules of a dispatch chain or tree chain.
    pub(super) fn dispatch_or_tree_chain(&self, table: Table, chain: &str) -> Option<RulesDigest> {
        match self.dispatch.get(&(table, chain.into())) {
            Some(Some(chain)) => Some(chain.rules.finish()),
            Some(None) => Some(RulesDigest::UNKNOWN),
            None => self.others,
        }
    }

    /// Reports whether a reading of whole tables has found a Service chain.
    pub(super) fn has_service_chain(&self, chain: ServiceChain) -> bool {
        self.chains.contains_key(&chain)
    }

    /// Returns the Service chains that the kernel has, among those that were read.
    pub(super) fn service_chains(&self) -> impl ExactSizeIterator<Item = ServiceChain> {
        self.chains.keys().copied()
    }

    /// Returns the tree chains that the kernel has, among those that were read.
    pub(super) fn tree_chains(&self) -> impl Iterator<Item = (Table, &str, &LiveDispatchChain)> {
        let chains = self.dispatch.iter();
        let chains =
            chains.filter_map(|((table, name), chain)| Some((*table, &**name, chain.as_ref()?)));
        chains.filter(|(table, name, _)| tree_of(*table, name).is_some())
    }

    /// Reports whether a dispatch or tree chain of the table has a rule with the same digest.
    pub(super) fn has_dispatch_rule(&self, table: Table, rule: &str) -> bool {
        let digest = RulesHasher::default().add(rule);
        digest.is_known() && self.dispatch_rules.contains(&(table, digest))
    }

    /// Returns the form that a dispatch chain has in the kernel.
    pub(super) fn form(&self, dispatch: DispatchChain) -> DispatchForm {
        let key = (dispatch.table(), dispatch.name().into());
        match self.dispatch.get(&key) {
            Some(Some(chain)) if chain.has_jumps => DispatchForm::Tree,
            _ => DispatchForm::Flat,
        }
    }

    /// Reports whether whole tables were read.
    pub(super) const fn is_of_tables(&self) -> bool {
        self.others.is_some()
    }

    /// Reports whether a dispatch or fixed chain exists.
    pub(crate) fn has(&self, table: Table, chain: &str) -> bool {
        let mut chains = self.shared_and_kubelet_chains.iter();
        chains.any(|(of, name)| *of == table && **name == *chain)
    }

    /// Returns the lines of a table that a check of the guarded chains compares. Other rules that
    /// name a `KUBE-` chain are among them; the check ignores these.
    pub(crate) fn listing(&self, table: Table) -> &str {
        self.listings.get(&table).map_or("", String::as_str)
    }

    fn append_to_listing(&mut self, table: Table, line: &str) {
        let listing = self.listings.entry(table).or_default();
        listing.push_str(line);
        listing.push('\n');
    }

    fn read_chain(&mut self, table: Table, name: &str) {
        let role = ChainRole::of(table, name);
        if role == ChainRole::Service {
            if let Some(chain) = ServiceChain::parse(name) {
                self.chains.insert(chain, RulesHasher::default().finish());
            }
            return;
        }
        if role == ChainRole::Dispatch || role == ChainRole::Tree {
            let chain = Some(LiveDispatchChain::default());
            self.dispatch.insert((table, name.into()), chain);
        }
        if name == KUBE_PROXY_CANARY {
            self.append_to_listing(table, &format!("-N {KUBE_PROXY_CANARY}"));
        } else if role != ChainRole::Tree && name.starts_with("KUBE-") {
            self.shared_and_kubelet_chains.push((table, name.into()));
        }
    }

    fn read_rule(&mut self, table: Table, chain: &str, rule: &str, line: &str) {
        if table == Table::Nat
            && let Some(chain) = ServiceChain::parse(chain)
        {
            self.read_service_rule(chain, rule);
        } else if let Some(Some(dispatch)) = self.dispatch.get_mut(&(table, chain.into())) {
            let digest = dispatch.add(table, rule);
            self.dispatch_rules.insert((table, digest));
        } else if chain == KUBE_FIREWALL
            || chain == KUBE_FORWARD
            || (table == Table::Nat && NAT_CHAINS.contains(&chain))
            || line.contains(" KUBE-")
        {
            self.append_to_listing(table, line);
        }
    }

    fn read_service_rule(&mut self, chain: ServiceChain, rule: &str) {
        if self.open.as_ref().is_none_or(|(open, _)| *open != chain) {
            self.close();
            self.open = Some((chain, RulesHasher::default()));
        }
        if let Some((_, rules)) = &mut self.open {
            rules.add(rule);
        }
    }

    /// Ends a Service chain. The listing has the rules of a chain together. If it did not, only
    /// the later ones would count, and the chain would be written again.
    fn close(&mut self) {
        if let Some((chain, rules)) = self.open.take() {
            self.chains.insert(chain, rules.finish());
        }
    }
}

/// Returns the guarded chains of `table`, the proxy's before the built-in ones: `iptables-nft`
/// aborts at an unprintable rule. If that rule is in a built-in chain, the proxy's chains have
/// been printed by then.
pub fn guarded_chains(table: Table, options: &Options) -> Vec<&'static str> {
    let mut chains = vec![KUBE_PROXY_CANARY];
    chains.extend(fixed_chains::names(table, options));
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if !chains.contains(&jump.from) {
            chains.push(jump.from);
        }
    }
    chains
}

/// Condition of the guarded chains of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GuardedChainState {
    /// The canary is missing, or all entry jumps: the table was flushed.
    pub is_flushed: bool,
    /// Missing entry jumps.
    pub missing_jumps: Vec<&'static Jump>,
    /// Fixed chains that lack some of their desired rules, or hold them in another order.
    pub incomplete_chains: Vec<&'static str>,
    /// Fixed chains that hold third-party rules besides the desired ones. If the listing of a chain
    /// ends at an unprintable rule, it is unknown whether the desired rules are complete.
    pub edited_chains: Vec<&'static str>,
    /// Entry jumps that were not listed, but may exist: the listing of their chain ends at an
    /// unprintable rule.
    pub unlisted_jumps: Vec<&'static Jump>,
}

impl GuardedChainState {
    /// Compares a listing of the guarded chains with the rules that a restore with `options`
    /// writes. A chain in `partly_listed_chains` was listed only up to an unprintable rule.
    pub(crate) fn of(
        table: Table,
        listing: &str,
        partly_listed_chains: &[String],
        options: &Options,
    ) -> Self {
        let is_partly_listed = |chain: &str| partly_listed_chains.iter().any(|name| name == chain);
        let desired = fixed_chains::desired_rules(table, options);
        let mut state = Self {
            is_flushed: !is_partly_listed(KUBE_PROXY_CANARY) && !has_canary(listing),
            ..Self::default()
        };
        for chain in fixed_chains::names(table, options) {
            let mut live = rules_of(chain, listing);
            let begins_as_desired = rules_of(chain, &desired).all(|rule| live.next() == Some(rule));
            // No rule of the proxy is unprintable: a chain listed in part has a third-party rule.
            let has_others = is_partly_listed(chain) || live.next().is_some();
            if begins_as_desired && (*chain == KUBE_FIREWALL || !has_others) {
                continue;
            }
            if is_partly_listed(chain) || has_desired_in_order(chain, listing, &desired) {
                state.edited_chains.push(chain);
            } else {
                state.incomplete_chains.push(chain);
            }
        }
        let mut live = LiveChains::default();
        live.read_table(table, listing);
        for jump in live.missing_entry_jumps(table) {
            if is_partly_listed(jump.from) {
                state.unlisted_jumps.push(jump);
            } else {
                state.missing_jumps.push(jump);
            }
        }
        let jumps = JUMPS.iter().filter(|jump| jump.table == table).count();
        state.is_flushed |= jumps > 0 && state.missing_jumps.len() == jumps;
        state
    }
}

/// Reports whether the guarded chains in `listing` hold the rules that a restore with `options`
/// writes. Allows third-party rules in built-in chains, and after the proxy's in `KUBE-FIREWALL`:
/// kubelets before 1.28 append one of their own, and would do so again each time it is deleted.
pub fn has_desired_rules(table: Table, listing: &str, options: &Options) -> bool {
    GuardedChainState::of(table, listing, &[], options) == GuardedChainState::default()
}

/// Reports whether the guarded chains hold the rules that a restore with `options` writes. Allows
/// third-party rules only in built-in chains, and in a `KUBE-FIREWALL` without a rule of the proxy.
pub(super) fn has_only_desired_rules(table: Table, listing: &str, options: &Options) -> bool {
    let has_others = |chain: &&str| {
        let live = rules_of(chain, listing).count();
        live > rules_of(chain, &fixed_chains::desired_rules(table, options)).count()
    };
    has_desired_rules(table, listing, options)
        && !fixed_chains::names(table, options).iter().any(has_others)
}

/// Reports whether the filter and nat tables have all shared chains, and the rules of fixed chains
/// and the entry jumps that a full restore writes.
fn has_shared_chains(rules: &LiveRules, options: &Options) -> bool {
    let are_complete = |table, chains: &[&str]| {
        let listing = rules.listing(table);
        chains.iter().all(|chain| rules.has(table, chain))
            && has_only_desired_rules(table, listing, options)
    };
    rules.has(Table::Filter, KUBE_FIREWALL)
        && are_complete(Table::Filter, &FILTER_CHAINS)
        && are_complete(Table::Nat, &NAT_CHAINS)
}

/// Returns the fixed chains and entry jumps to write after a reading of whole tables: all guarded
/// chains if one of them is damaged, otherwise none. `KUBE-FIREWALL` stays as it is if the proxy
/// has no rule in it.
pub(super) fn guarded_damage(
    read: &LiveRules,
    live: &LiveChains,
    options: &Options,
) -> (BTreeSet<(Table, &'static str)>, Vec<&'static Jump>) {
    if has_shared_chains(read, options) {
        return (BTreeSet::new(), Vec::new());
    }
    let canaries = Table::ALL.map(|table| (table, KUBE_PROXY_CANARY));
    let firewall = (!live.has_kube_firewall).then_some((Table::Filter, KUBE_FIREWALL));
    let chains = fixed_chains::all_fixed_chains(options)
        .into_iter()
        .chain(canaries);
    let missing = JUMPS.iter().filter(|jump| !live.has(jump));
    (chains.chain(firewall).collect(), missing.collect())
}

fn has_canary(listing: &str) -> bool {
    let canary = format!("-N {KUBE_PROXY_CANARY}");
    listing.lines().any(|line| line == canary)
}

/// Reports whether a chain holds all desired rules in their order. Allows any rules before,
/// between and after them.
fn has_desired_in_order(chain: &str, listing: &str, desired: &str) -> bool {
    let mut live = rules_of(chain, listing);
    rules_of(chain, desired).all(|rule| live.any(|live| live == rule))
}

/// Returns the rules of one chain; `None` for a rule that cannot be parsed, which is a third-party
/// one.
fn rules_of<'a>(chain: &'a str, text: &'a str) -> impl Iterator<Item = Option<Rule>> + 'a {
    text.lines().filter_map(move |line| {
        let (found, spec) = line.strip_prefix("-A ")?.split_once(' ')?;
        (found == chain).then(|| spec.parse().ok())
    })
}
