//! Rendered rules of one Service (a text with an index of chains and dispatch rules), their record,
//! and the writer of rules and other lines.
//!
//! Full and partial payloads are put together from [`ServiceRules`]. One value is reused from
//! Service to Service, so that its buffers are not allocated again for each. A rule is written
//! part by part, in the order in which it reads, with typed arguments and without an allocation.

use std::cell::OnceCell;
use std::fmt::{self, Display};
use std::io::Write;
use std::net::IpAddr;
use std::ops::{AddAssign, Range, SubAssign};

use crate::net::{IpNet, Port, Protocol};
use crate::render::options::{Comments, LocalDetector};
use crate::rules::{RulesDigest, RulesHasher, Table, rules_of_lines};
use crate::ruleset::{DispatchChain, DispatchDestination, ServiceChain};

/// Rule of one Service in a dispatch chain. Those of one service port keep their order: if an
/// address is both an external IP and a load balancer's address, the first rule that matches
/// decides whether the source ranges apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DispatchRule {
    pub(crate) chain: DispatchChain,
    pub(crate) destination: DispatchDestination,
    /// A blank, the rule without `-A CHAIN`, and a newline.
    pub(crate) text: Box<[u8]>,
}

/// Chains of a Service, each after all chains that it jumps to, and its dispatch rules.
#[derive(Debug, Default)]
pub(crate) struct ServiceRules {
    text: Vec<u8>,
    /// Each with the position of its rules in the text, and as it is recorded after these were
    /// written: pages write texts alone, and digests take a third of their time.
    chains: Vec<(ServiceChain, Range<usize>, OnceCell<RecordedChain>)>,
    /// Rules without `-A CHAIN`, each with its newline.
    dispatch: Vec<(DispatchChain, DispatchDestination, Range<usize>)>,
    totals: ServiceTotals,
    comments: Comments,
}

impl ServiceRules {
    /// Removes all rules and keeps the memory. Those that follow have these comments.
    pub(super) fn begin(&mut self, comments: Comments) {
        self.clear();
        self.comments = comments;
    }

    /// Removes all rules and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.chains.clear();
        self.dispatch.clear();
        self.totals = ServiceTotals::default();
        self.comments = Comments::default();
    }

    /// Begins the rules of a port, which adds to the sums over all ports.
    pub(super) fn begin_port(&mut self, totals: ServiceTotals) {
        self.totals += totals;
    }

    /// Begins a chain, which holds all rules up to [`Self::end_chain`].
    pub(super) fn begin_chain(&mut self, chain: ServiceChain) {
        let start = self.text.len();
        self.chains.push((chain, start..start, OnceCell::new()));
    }

    /// Begins a rule of the last begun chain.
    pub(super) fn rule(&mut self) -> RuleWriter<'_> {
        match self.chains.last() {
            Some((open, ..)) => RuleWriter::append_to_service_chain(&mut self.text, *open),
            None => RuleWriter::new(&mut self.text),
        }
    }

    /// Ends the last begun chain.
    pub(super) fn end_chain(&mut self) {
        if let Some((_, range, _)) = self.chains.last_mut() {
            range.end = self.text.len();
        }
    }

    /// Writes one dispatch rule of the last begun port.
    pub(super) fn dispatch_rule(
        &mut self,
        chain: DispatchChain,
        destination: DispatchDestination,
        write: impl FnOnce(RuleWriter<'_>),
    ) {
        let start = self.text.len();
        write(RuleWriter::new(&mut self.text));
        self.dispatch
            .push((chain, destination, start..self.text.len()));
    }

    pub(crate) fn totals(&self) -> ServiceTotals {
        self.totals
    }

    /// Returns the chains, each with its rules, whole lines.
    pub(crate) fn chains(&self) -> impl Iterator<Item = (ServiceChain, &[u8])> {
        let chains = self.chains.iter();
        chains.map(|(chain, range, _)| (*chain, self.slice(range)))
    }

    /// Returns the chains as they are recorded, each with its rules, whole lines.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (RecordedChain<ServiceChain>, &[u8])> {
        self.chains.iter().map(|(chain, range, recorded)| {
            let text = self.slice(range);
            let of_text = || RecordedChain::of_lines(str::from_utf8(text).unwrap_or_default());
            (recorded.get_or_init(of_text).named(*chain), text)
        })
    }

    /// Returns the dispatch rules, each with its chain: a blank, the rule without `-A CHAIN`, and
    /// its newline.
    pub(crate) fn dispatch_rules(&self) -> impl Iterator<Item = (DispatchChain, &[u8])> {
        let rules = self.dispatch.iter();
        rules.map(|(chain, _, range)| (*chain, self.slice(range)))
    }

    /// Returns the dispatch rules as they are recorded.
    pub(crate) fn to_dispatch_rules(&self) -> impl Iterator<Item = DispatchRule> {
        let rules = self.dispatch.iter();
        rules.map(|(chain, destination, range)| DispatchRule {
            chain: *chain,
            destination: *destination,
            text: self.slice(range).into(),
        })
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.text.get(range.clone()).unwrap_or_default()
    }
}

/// Chain in the kernel: the rules that were last written or adopted, and whether a comparison has
/// found others since. `chain` is its name, unless the record is found by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordedChain<C = ()> {
    pub(crate) chain: C,
    digest: RulesDigest,
    is_damaged: bool,
    pub(crate) rule_count: u32,
}

impl RecordedChain {
    /// Returns a chain that holds these rules: lines with `-A CHAIN`.
    pub(crate) fn of_lines(lines: &str) -> Self {
        let mut hasher = RulesHasher::default();
        let rules = rules_of_lines(lines).inspect(|rule| {
            hasher.add(rule);
        });
        Self {
            chain: (),
            // Counted before the digest is complete.
            rule_count: u32::try_from(rules.count()).unwrap_or(u32::MAX),
            digest: hasher.finish(),
            is_damaged: false,
        }
    }

    /// Returns a chain whose rules are not known.
    pub(crate) const fn unknown() -> Self {
        Self {
            chain: (),
            digest: RulesDigest::UNKNOWN,
            is_damaged: true,
            rule_count: 0,
        }
    }

    /// Returns the record for a Service chain.
    pub(crate) const fn named(self, chain: ServiceChain) -> RecordedChain<ServiceChain> {
        RecordedChain {
            chain,
            digest: self.digest,
            is_damaged: self.is_damaged,
            rule_count: self.rule_count,
        }
    }
}

impl<C> RecordedChain<C> {
    /// Returns the digest of the rules that were last written or adopted.
    pub(crate) const fn digest(&self) -> RulesDigest {
        self.digest
    }

    /// Reports whether the kernel holds other rules, or may.
    pub(crate) const fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Reports whether the kernel holds the rules with this digest.
    pub(crate) fn holds(&self, desired: RulesDigest) -> bool {
        !self.is_damaged && self.digest.is_same(desired)
    }

    /// Compares the record with the rules that were read; `None`: they were not read. Returns
    /// whether they differ.
    pub(crate) fn observe(&mut self, read: Option<RulesDigest>) -> bool {
        let Some(read) = read else {
            return false;
        };
        self.is_damaged = !read.is_same(self.digest);
        self.is_damaged
    }

    /// Marks the chain as damaged, so that it is written again, or takes the mark back.
    pub(crate) const fn set_damaged(&mut self, is_damaged: bool) {
        self.is_damaged = is_damaged;
    }
}

/// Record of the rules of one Service.
#[derive(Debug, Clone, Default)]
pub(crate) struct AppliedService {
    /// Its chains in the kernel, sorted.
    pub(crate) chains: Box<[RecordedChain<ServiceChain>]>,
    /// Desired dispatch rules.
    pub(crate) dispatch: Box<[DispatchRule]>,
    /// Sums over the ports that are in the kernel.
    pub(crate) totals: ServiceTotals,
    /// Its rules that have comments. In large-cluster mode, those of endpoints lack them; a
    /// Service keeps those of the other mode until it changes.
    pub(crate) comments: Comments,
}

impl AppliedService {
    pub(crate) fn rendered(rules: &ServiceRules) -> Self {
        let mut chains: Vec<_> = rules.recorded().map(|(rendered, _)| rendered).collect();
        chains.sort_unstable_by_key(|recorded| recorded.chain);
        Self {
            chains: chains.into(),
            dispatch: rules.to_dispatch_rules().collect(),
            totals: rules.totals(),
            comments: rules.comments,
        }
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.chains.iter().any(RecordedChain::is_damaged)
    }

    /// Reports whether there is nothing to record: the Service has no rules and no endpoints.
    pub(crate) fn is_empty(&self) -> bool {
        self.chains.is_empty()
            && self.dispatch.is_empty()
            && self.totals == ServiceTotals::default()
    }

    /// Reports whether the kernel holds the rendered rules of a chain.
    pub(crate) fn holds(&self, rendered: &RecordedChain<ServiceChain>) -> bool {
        let recorded = self.chain(rendered.chain);
        recorded.is_some_and(|recorded| recorded.holds(rendered.digest()))
    }

    /// Returns a chain, if the Service has it in the kernel.
    pub(crate) fn chain(&self, chain: ServiceChain) -> Option<&RecordedChain<ServiceChain>> {
        let at = self
            .chains
            .binary_search_by_key(&chain, |recorded| recorded.chain);
        self.chains.get(at.ok()?)
    }
}

/// Sums over service ports, other than numbers of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceTotals {
    /// Endpoints in any condition of all ports; an endpoint counts once for each of its ports. Not
    /// those of ports that exceed the maximum of endpoints of a Service, nor of a Service that gets
    /// no rules because of the limits of its namespace.
    pub endpoints: usize,
    /// Ports with usable endpoints, but none on this node, under internal traffic policy Local:
    /// packets to the cluster IP are dropped.
    pub internal_dropped: usize,
    /// Ports with usable endpoints, but none on this node, under external traffic policy Local. As
    /// in upstream's metric, ports without an external address count as well.
    pub external_dropped: usize,
    /// Ports with an endpoint on this node that the [`LocalDetector`] does not recognize as a Pod,
    /// and that is not the node itself.
    pub undetected: usize,
}

impl AddAssign for ServiceTotals {
    fn add_assign(&mut self, other: Self) {
        self.endpoints += other.endpoints;
        self.internal_dropped += other.internal_dropped;
        self.external_dropped += other.external_dropped;
        self.undetected += other.undetected;
    }
}

/// The caller subtracts only totals that it has added before, so that no sum falls below zero.
impl SubAssign for ServiceTotals {
    fn sub_assign(&mut self, other: Self) {
        self.endpoints -= other.endpoints;
        self.internal_dropped -= other.internal_dropped;
        self.external_dropped -= other.external_dropped;
        self.undetected -= other.undetected;
    }
}

/// Numbers of rules by table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// Rules in the filter table.
    pub filter: u64,
    /// Rules in the nat table.
    pub nat: u64,
}

impl RuleCounts {
    /// Returns the sum over both tables.
    pub const fn total(self) -> u64 {
        self.filter + self.nat
    }

    /// Adds rules of one table; those of mangle are not counted.
    pub(crate) fn add(&mut self, table: Table, count: u64) {
        match table {
            Table::Filter => self.filter += count,
            Table::Nat => self.nat += count,
            Table::Mangle => {}
        }
    }
}

impl AddAssign for RuleCounts {
    fn add_assign(&mut self, other: Self) {
        self.filter += other.filter;
        self.nat += other.nat;
    }
}

/// Writer of one rule, with or without `-A CHAIN`. [`jump`](Self::jump),
/// [`jump_to_service_chain`](Self::jump_to_service_chain), [`dnat`](Self::dnat) and
/// [`end`](Self::end) end the line.
pub(crate) struct RuleWriter<'a> {
    buf: &'a mut Vec<u8>,
}

impl<'a> RuleWriter<'a> {
    /// Begins without `-A CHAIN`, which the caller writes.
    pub(crate) const fn new(buf: &'a mut Vec<u8>) -> Self {
        Self { buf }
    }

    /// Begins with `-A CHAIN`, for a fixed chain.
    pub(crate) fn append(buf: &'a mut Vec<u8>, chain: &str) -> Self {
        buf.extend_from_slice(b"-A ");
        buf.extend_from_slice(chain.as_bytes());
        Self { buf }
    }

    /// Begins with `-A CHAIN`, for a chain of a Service.
    pub(super) fn append_to_service_chain(buf: &'a mut Vec<u8>, chain: ServiceChain) -> Self {
        buf.extend_from_slice(b"-A ");
        chain.write(buf);
        Self { buf }
    }

    /// Adds a comment, quoted because it holds blanks.
    pub(crate) fn comment(self, text: impl Display) -> Self {
        self.show(format_args!(" -m comment --comment \"{text}\""))
    }

    /// Adds a comment of a single word.
    pub(super) fn bare_comment(self, text: impl Display) -> Self {
        self.show(format_args!(" -m comment --comment {text}"))
    }

    /// Adds words as they are.
    pub(crate) fn words(self, words: &str) -> Self {
        self.buf.push(b' ');
        self.buf.extend_from_slice(words.as_bytes());
        self
    }

    /// Adds the protocol, and the match for its ports.
    pub(super) fn protocol(self, protocol: Protocol) -> Self {
        let name = protocol.as_str();
        self.words("-m").words(name).words("-p").words(name)
    }

    /// Adds one destination address.
    pub(crate) fn destination(self, ip: IpAddr) -> Self {
        self.show(format_args!(" -d {ip}"))
    }

    /// Adds one source address.
    pub(super) fn source(self, ip: IpAddr) -> Self {
        self.show(format_args!(" -s {ip}"))
    }

    /// Adds a source network.
    pub(super) fn source_net(self, net: IpNet) -> Self {
        self.show(format_args!(" -s {net}"))
    }

    /// Adds the destination port; requires [`Self::protocol`] before it.
    pub(super) fn destination_port(self, port: Port) -> Self {
        self.words("--dport").number(port.get().into())
    }

    pub(super) fn number(self, number: u64) -> Self {
        self.words(itoa::Buffer::new().format(number))
    }

    /// Adds the name of a Service chain as an argument.
    pub(super) fn chain(self, chain: ServiceChain) -> Self {
        self.buf.push(b' ');
        chain.write(self.buf);
        self
    }

    /// Matches a share of the packets that reach the rule; it is a number from 0 to 1.
    pub(super) fn probability(self, share: f64) -> Self {
        self.show(format_args!(
            " -m statistic --mode random --probability {share:.10}"
        ))
    }

    /// Matches local Pod traffic; every packet if the detector is absent.
    pub(super) fn if_local(self, detector: &LocalDetector) -> Self {
        match detector {
            LocalDetector::Absent => self,
            present => self.show(format_args!(" {present}")),
        }
    }

    /// Matches all other traffic; every packet if the detector is absent.
    pub(super) fn if_not_local(self, detector: &LocalDetector) -> Self {
        match detector {
            LocalDetector::Absent => self,
            present => self.show(format_args!(" ! {present}")),
        }
    }

    /// Jumps to a target or to a chain by name, and ends the rule.
    pub(crate) fn jump(self, target: &str) {
        self.words("-j").words(target).end();
    }

    /// Jumps to a chain of a Service, and ends the rule.
    pub(super) fn jump_to_service_chain(self, chain: ServiceChain) {
        self.words("-j").chain(chain).end();
    }

    /// Sends packets to an endpoint, and ends the rule.
    pub(super) fn dnat(self, endpoint: &[u8]) {
        let rule = self.words("-j DNAT --to-destination ");
        rule.buf.extend_from_slice(endpoint);
        rule.end();
    }

    /// Ends the line; the methods that jump, and [`Self::dnat`], do it themselves.
    pub(crate) fn end(self) {
        self.buf.push(b'\n');
    }

    fn show(self, text: fmt::Arguments<'_>) -> Self {
        // Writing to a Vec cannot fail.
        let _ = self.buf.write_fmt(text);
        self
    }
}

/// Writes one line, given in parts.
pub(crate) fn write_line(buf: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        buf.extend_from_slice(part.as_bytes());
    }
    buf.push(b'\n');
}

/// Writes the declaration of a Service chain, which creates or empties the chain.
pub(crate) fn write_chain_declaration(buf: &mut Vec<u8>, chain: ServiceChain) {
    buf.push(b':');
    chain.write(buf);
    buf.extend_from_slice(b" - [0:0]\n");
}

/// Writes the declarations of chains given by name.
pub(crate) fn write_chain_declarations(buf: &mut Vec<u8>, chains: &[&str]) {
    for chain in chains {
        write_line(buf, &[":", chain, " - [0:0]"]);
    }
}
