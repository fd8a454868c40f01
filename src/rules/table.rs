//! Tables, sets of chains, backends and payloads: the terms that writers and readers of rules
//! share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Temporary chain of the mangle table with which the proxy tests whether rules can name an nfacct
/// counter. Deleted at once; if the process is killed meanwhile, by the test of the next start.
pub(crate) const COUNTER_TEST_CHAIN: &str = "DELTAPROXY-NFACCT-TEST";

enum_of_words! {
    all
    /// Netfilter table that the proxy uses, with its name after `-t` and after `*`, in the order of
    /// `iptables-save`; payloads hold `filter` first, then `nat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Table {
        /// Rejects, drops and forwarding.
        Filter = "filter",
        /// Destination and source translation.
        Nat = "nat",
        /// Used by the proxy for its canary chain only.
        Mangle = "mangle",
    }
}

impl Table {
    /// Returns the built-in chains: the kernel calls them, and they exist without a declaration.
    pub const fn built_in_chains(self) -> &'static [&'static str] {
        match self {
            Self::Filter => &["INPUT", "FORWARD", "OUTPUT"],
            Self::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
            Self::Mangle => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
        }
    }

    /// Returns the table of that name; `None` for `raw`, `security` and unknown tables.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.as_str() == name)
    }
}

/// Table whose rules packets traverse: those that the proxy uses, and two of other programs only.
///
/// Separate from [`Table`], so that code that writes rules cannot name the tables of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TracedTable {
    /// Table that the proxy uses as well.
    Proxy(Table),
    /// Before connection tracking: drops, and exemptions from tracking.
    Raw,
    /// After `filter`, for the labels of mandatory access control; its rules may drop as well.
    Security,
}

impl TracedTable {
    pub const ALL: [Self; 5] = [
        Self::Proxy(Table::Filter),
        Self::Proxy(Table::Nat),
        Self::Proxy(Table::Mangle),
        Self::Raw,
        Self::Security,
    ];

    /// Returns the built-in chains: the kernel calls them, and they exist without a declaration.
    pub const fn built_in_chains(self) -> &'static [&'static str] {
        match self {
            Self::Proxy(table) => table.built_in_chains(),
            Self::Raw => &["PREROUTING", "OUTPUT"],
            Self::Security => &["INPUT", "FORWARD", "OUTPUT"],
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proxy(table) => table.as_str(),
            Self::Raw => "raw",
            Self::Security => "security",
        }
    }

    /// Returns the table of that name; `None` for unknown tables.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.as_str() == name)
    }

    /// Returns the table if the proxy uses it.
    pub const fn of_proxy(self) -> Option<Table> {
        match self {
            Self::Proxy(table) => Some(table),
            Self::Raw | Self::Security => None,
        }
    }
}

impl From<Table> for TracedTable {
    fn from(table: Table) -> Self {
        Self::Proxy(table)
    }
}

impl PartialEq<Table> for TracedTable {
    fn eq(&self, other: &Table) -> bool {
        self.of_proxy() == Some(*other)
    }
}

impl fmt::Display for TracedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

enum_of_words! {
    all
    /// Kernel interface of an `iptables-restore` binary, with its name in those of binaries and in
    /// flags. The backends differ in the cost of commands, and in one line of a full payload.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Backend {
        /// `nf_tables`: sends only the chains that a payload names, validates all reachable ones.
        Nft = "nft",
        /// `x_tables`: reads and writes whole tables.
        Legacy = "legacy",
    }
}

/// Text for `iptables-restore --noflush`, produced piece by piece: a full payload can be 100 MB at
/// 50,000 Services, and is never held in memory as a whole.
///
/// A payload is a function of its inputs: produced again, it has the same bytes. So the excerpt
/// around a rejected line can be shown although the text was not kept.
pub trait Payload {
    /// Appends the next piece, one or more whole lines, to `buf`. Returns false at the end.
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool;
}

/// Payload that is already text, owned or borrowed.
#[derive(Debug, Clone, Default)]
pub struct Text<T = Vec<u8>>(Option<T>);

impl<T: AsRef<[u8]>> Text<T> {
    /// Returns a payload of one piece, the whole text.
    pub const fn new(text: T) -> Self {
        Self(Some(text))
    }
}

impl<T: AsRef<[u8]>> Payload for Text<T> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        let Some(text) = self.0.take() else {
            return false;
        };
        buf.extend_from_slice(text.as_ref());
        true
    }
}

/// Chains of the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainSet {
    /// Tables of which all chains are in the set.
    tables: BTreeSet<Table>,
    /// Names of chains of the other tables.
    named: BTreeMap<Table, BTreeSet<Box<str>>>,
}

impl ChainSet {
    pub fn of_tables(tables: impl IntoIterator<Item = Table>) -> Self {
        Self {
            tables: tables.into_iter().collect(),
            ..Self::default()
        }
    }

    pub fn add(&mut self, table: Table, chain: &str) {
        if !self.has_table(table) {
            self.named.entry(table).or_default().insert(chain.into());
        }
    }

    pub fn add_table(&mut self, table: Table) {
        self.named.remove(&table);
        self.tables.insert(table);
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.named.is_empty()
    }

    /// Reports whether all chains of a table are in the set.
    pub fn has_table(&self, table: Table) -> bool {
        self.tables.contains(&table)
    }

    /// Returns the tables of which all chains are in the set.
    pub fn whole_tables(&self) -> impl Iterator<Item = Table> {
        self.tables.iter().copied()
    }

    /// Returns the chains that are in the set by name, sorted.
    pub fn named(&self) -> impl Iterator<Item = (Table, &str)> {
        let named = self.named.iter();
        named.flat_map(|(table, chains)| chains.iter().map(|chain| (*table, &**chain)))
    }

    /// Returns the number of chains of a table that are in the set by name.
    pub fn count_named(&self, table: Table) -> usize {
        self.named.get(&table).map_or(0, BTreeSet::len)
    }
}
