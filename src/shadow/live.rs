//! Rules of kube-proxy in the kernel, as digests without comments.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use crate::model::ServiceName;
use crate::rules::{ChainSet, RulesDigest, RulesHasher, Table};
use crate::ruleset::{DispatchChain, KUBE_NODEPORTS, KUBE_PROXY_CANARY, PortComment, ServiceChain};

pub(super) type DispatchKey = (DispatchChain, RulesDigest);

/// Rules of the proxy's chains in filter and nat.
#[derive(Debug, Default)]
pub(super) struct LiveTables {
    chains: HashMap<ServiceChain, LiveServiceChain>,
    /// Rules of Services in dispatch chains, with the Services that their comments name.
    dispatch: HashMap<DispatchKey, Vec<ServiceName>>,
    /// Jumps to `KUBE-NODEPORTS`.
    node_ports_jumps: HashSet<RulesDigest>,
    /// Size of the rules of each shared chain.
    shared_bytes: BTreeMap<(Table, Box<str>), u64>,
    /// Lines of each table about fixed chains, entry jumps and the canary.
    listings: BTreeMap<Table, String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct LiveServiceChain {
    rules: RulesHasher,
    bytes: u64,
}

impl LiveTables {
    /// Reads one line of what `iptables-save -t TABLE` printed.
    pub(super) fn read_line(&mut self, table: Table, line: &str) {
        if let Some(header) = line.strip_prefix(':') {
            let name = header.split(' ').next().unwrap_or_default();
            if name == KUBE_PROXY_CANARY {
                self.list(table, &format!("-N {name}"));
            } else if let Some(chain) = service_chain(table, name) {
                self.chains.insert(chain, LiveServiceChain::default());
            }
        } else if let Some((chain, rule)) = line
            .strip_prefix("-A ")
            .and_then(|rest| rest.split_once(' '))
        {
            self.read_rule(table, (chain, rule), line);
        }
    }

    fn read_rule(&mut self, table: Table, (name, rule): (&str, &str), line: &str) {
        let bytes = line.len() as u64 + 1;
        if let Some(chain) = service_chain(table, name) {
            let chain = self.chains.entry(chain).or_default();
            chain.rules.add(&without_comment(rule));
            chain.bytes += bytes;
            return;
        }
        if name.starts_with("KUBE-") {
            *self.shared_bytes.entry((table, name.into())).or_default() += bytes;
        }
        match DispatchChain::find(table, name) {
            Some(DispatchChain::NatServices) if is_node_ports_jump(rule) => {
                self.node_ports_jumps.insert(digest_of_rule(rule));
            }
            // kube-proxy has it only where the kernel has counters, next to one that does the same.
            Some(_) if rule.contains("-m nfacct ") => {}
            Some(dispatch) => {
                let key = (dispatch, digest_of_rule(rule));
                let services = self.dispatch.entry(key).or_default();
                services.extend(commented_service(rule));
            }
            None if line.contains(" KUBE-") => self.list(table, line),
            None => {}
        }
    }

    fn list(&mut self, table: Table, line: &str) {
        let listing = self.listings.entry(table).or_default();
        listing.push_str(line);
        listing.push('\n');
    }

    /// Returns the digest of the rules of a Service chain; `None` for a missing one.
    pub(super) fn chain(&self, chain: ServiceChain) -> Option<RulesDigest> {
        self.chains.get(&chain).map(|live| live.rules.finish())
    }

    pub(super) fn chains(&self) -> impl ExactSizeIterator<Item = ServiceChain> {
        self.chains.keys().copied()
    }

    pub(super) fn has_rule(&self, rule: &DispatchKey) -> bool {
        rule.1.is_known() && self.dispatch.contains_key(rule)
    }

    /// Reports whether a dispatch chain has a rule that its comment does not give to other Services
    /// only.
    pub(super) fn has_rule_of(&self, rule: &DispatchKey, service: &ServiceName) -> bool {
        let services = self.dispatch.get(rule).filter(|_| rule.1.is_known());
        services.is_some_and(|services| services.is_empty() || services.contains(service))
    }

    /// Returns all rules of dispatch chains, with the first Service that their comments name.
    pub(super) fn dispatch_rules(
        &self,
    ) -> impl ExactSizeIterator<Item = (&DispatchKey, Option<&ServiceName>)> {
        let rules = self.dispatch.iter();
        rules.map(|(key, services)| (key, services.first()))
    }

    pub(super) fn has_node_ports_jump(&self, jump: RulesDigest) -> bool {
        self.node_ports_jumps.contains(&jump)
    }

    /// Returns the lines of a table that show its fixed chains, entry jumps and canary.
    pub(super) fn listing(&self, table: Table) -> &str {
        self.listings.get(&table).map_or("", String::as_str)
    }

    /// Returns the size of the rules in these chains.
    pub(super) fn bytes(&self, chains: &ChainSet) -> u64 {
        let shared = self.shared_bytes.iter();
        let shared = shared.filter(|((table, _), _)| chains.has_table(*table));
        let mut sum: u64 = shared.map(|(_, bytes)| bytes).sum();
        if chains.has_table(Table::Nat) {
            sum += self.chains.values().map(|chain| chain.bytes).sum::<u64>();
        }
        for (table, name) in chains.named() {
            sum += match service_chain(table, name) {
                Some(chain) => self.chains.get(&chain).map_or(0, |chain| chain.bytes),
                None => self
                    .shared_bytes
                    .get(&(table, name.into()))
                    .copied()
                    .unwrap_or_default(),
            };
        }
        sum
    }
}

fn service_chain(table: Table, name: &str) -> Option<ServiceChain> {
    (table == Table::Nat)
        .then(|| ServiceChain::parse(name))
        .flatten()
}

fn is_node_ports_jump(rule: &str) -> bool {
    rule.rsplit_once(" -j ")
        .is_some_and(|(_, target)| target.trim_end() == KUBE_NODEPORTS)
}

/// Returns the digest of one rule, without its comment.
pub(super) fn digest_of_rule(rule: &str) -> RulesDigest {
    RulesHasher::default().add(&without_comment(rule))
}

/// Returns the digest of rules, without their comments.
pub(super) fn digest_of_rules<'a>(rules: impl Iterator<Item = &'a str>) -> RulesDigest {
    let mut hasher = RulesHasher::default();
    for rule in rules {
        hasher.add(&without_comment(rule));
    }
    hasher.finish()
}

const COMMENT: &str = "-m comment --comment ";

/// Returns the text around the comment of a rule, and the comment.
fn around_comment(rule: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = rule.split_once(COMMENT)?;
    let (comment, after) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => rest.split_once(' ').unwrap_or((rest, "")),
    };
    Some((before, comment, after))
}

fn without_comment(rule: &str) -> Cow<'_, str> {
    match around_comment(rule) {
        Some((before, _, after)) => Cow::Owned(format!("{before}{}", after.trim_start())),
        None => Cow::Borrowed(rule),
    }
}

fn commented_service(rule: &str) -> Option<ServiceName> {
    let (_, comment, _) = around_comment(rule)?;
    let (_, port) = PortComment::parse(comment)?;
    let (namespace, rest) = port.split_once('/')?;
    let name = rest.split(':').next()?;
    Some(ServiceName::new(namespace, name))
}
