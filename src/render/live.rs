//! Reads listings of the rules in the kernel, line by line, so that the text of a large cluster's
//! rules is never whole in memory.
//!
//! There are two readers of the same lines, because a full restore does not need the rules:
//!
//! - [`LiveChains`]: names of Service chains, third-party references to them, and entry jumps.
//!   Enough for a full restore; comparisons use it as well.
//! - [`LiveRules`]: a digest of the rules of each chain. For a comparison with rendered or recorded
//!   rules.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use crate::rules::{Rule, RulesDigest, RulesHasher, Table};
use crate::ruleset::{
    ChainRole, DispatchChain, DispatchForm, JUMPS, Jump, KUBE_FIREWALL, KUBE_FORWARD,
    KUBE_PROXY_CANARY, NAT_CHAINS, ServiceChain, is_proxy_chain, is_service_chain,
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

    /// Notes that `KUBE-FIREWALL` exists, in a filter table that cannot be read.
    pub const fn note_kube_firewall(&mut self) {
        self.has_kube_firewall = true;
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
    /// Lines of each table that a check of the guarded chains (`fixed_chains`) compares: canaries
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
