//! Input and output of a trace: the packet, the node, and the outcomes with their rules.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::net::{Port, Protocol};
use crate::rules::grammar::{Rule, Share};
use crate::rules::table::TracedTable;

/// First packet of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Source address. A packet from a local address starts on the node.
    pub source: IpAddr,
    /// Destination address before any translation.
    pub destination: IpAddr,
    pub protocol: Protocol,
    /// Destination port before any translation.
    pub port: Port,
    /// Incoming interface; `None` if unknown, and then only rules about `lo` can be decided.
    pub in_interface: Option<Box<str>>,
    /// Bridge port by which the packet entered the node.
    pub bridge_port: BridgePort,
}

/// Port of a bridge of the node by which a packet entered it, as `-m physdev` sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BridgePort {
    /// The packet did not enter by a bridge, or bridged packets are not handed to iptables.
    #[default]
    None,
    /// Perhaps it entered by a port; rules about ports of bridges cannot be decided.
    Unknown,
}

/// Properties of the node that rules match: its addresses, its lists of recent sources, and what
/// else can be looked up on it.
#[derive(Debug, Clone, Default)]
pub struct TracedNode {
    /// Addresses of the interfaces; those of loopback may be left out.
    pub addresses: BTreeSet<IpAddr>,
    /// Names of the `recent` lists with an entry for the source of the packet that is not expired.
    pub recent_lists: BTreeSet<Box<str>>,
    /// Routes and sets; `None` if they are not known, and then rules about them are undecided.
    pub host: Option<Arc<dyn HostLookup>>,
}

impl TracedNode {
    /// Reports whether the address has type `LOCAL` in the routing table.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.addresses.contains(&ip)
    }
}

/// Routes and IP sets of a node, which rules match and no dump shows.
///
/// A trait, because each answer depends on the packet: the kernel selects a route by source,
/// incoming interface and mark as well.
pub trait HostLookup: fmt::Debug + Send + Sync {
    /// Returns the interface by which a packet leaves the node; `None` if that is not known.
    fn out_interface(&self, packet: &RoutedPacket<'_>) -> Option<&str>;

    /// Reports whether an IP set has the element that the packet is; `None` if that is not known.
    fn is_in_set(&self, set: &str, packet: &SetElement<'_>) -> Option<bool>;
}

/// Packet at the time when the kernel routes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutedPacket<'a> {
    pub source: IpAddr,
    /// Destination address, after translation.
    pub destination: IpAddr,
    /// Incoming interface; `None` for packets of the node itself, or if it is not known.
    pub in_interface: Option<&'a str>,
    pub mark: u32,
}

/// Properties of a packet that an element of an IP set consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetElement<'a> {
    /// Side of the packet for each part of the element, such as address and port.
    pub sides: &'a [Side],
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: Protocol,
    /// Source port, if it is known.
    pub source_port: Option<u16>,
    /// Destination port, if it is known.
    pub port: Option<u16>,
}

/// Side of a packet, as rules name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `src`: the sender.
    Source,
    /// `dst`: the receiver.
    Destination,
}

/// Verdict on some share of the packets, and the rules that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOutcome<'a> {
    /// Share of all packets. The shares of all outcomes of a trace add up to one.
    pub share: Share,
    pub verdict: Verdict,
    /// Last built-in chain that was evaluated, in which the verdict was reached.
    pub at: (TracedTable, &'static str),
    /// Rules that matched, in order.
    pub steps: Vec<Step<'a>>,
    /// Rules that matched the receiver's reply, in order; empty unless the packet is translated.
    pub reply_steps: Vec<Step<'a>>,
    /// Rules that cannot be decided, and on which it depends whether this share has this verdict.
    /// The outcome is that of packets that none of them matches.
    pub undecided: Vec<Step<'a>>,
    /// The rules have too many paths: not every combination of undecided rules was tried.
    pub is_cut_off: bool,
    /// Chains that the first packet entered, on the path with the most evaluated rules. The chains
    /// of the reply are not among them.
    pub traversed: Vec<TraversedChain<'a>>,
}

/// Rule that was evaluated, and its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    pub table: TracedTable,
    pub chain: &'a str,
    pub rule: &'a Rule,
}

/// Final verdict on a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Accepted after its destination was translated, and the receiver's reply as well.
    Delivered {
        to: IpAddr,
        port: u16,
        /// The receiver sees an address of the node as source.
        masqueraded: bool,
    },
    /// Accepted after its destination was translated, but the receiver's reply is lost.
    Unanswered {
        to: IpAddr,
        port: u16,
        masqueraded: bool,
        loss: ReplyLoss,
    },
    /// Accepted with its original destination. The reply to it is not traced.
    Passed {
        masqueraded: bool,
    },
    Dropped,
    Rejected,
    Unclear(Unclear),
}

enum_of_words! {
    /// Cause why the reply to a packet does not reach the client.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ReplyLoss {
        /// A rule or policy drops the reply.
        Dropped = "dropped",
        /// A rule rejects the reply; the receiver gets the error, and the client nothing.
        Rejected = "rejected",
        /// A rule exempts the reply from connection tracking, so that it is not translated back.
        Untracked = "not translated back",
    }
}

/// Reason for which a verdict cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unclear {
    /// The rule matches, but its target is not supported or could not be parsed.
    UnsupportedTarget {
        table: TracedTable,
        chain: String,
        rule: String,
    },
    /// The chain jumps to itself, directly or not. The kernel rejects such rules.
    JumpLoop(String),
    MissingChain(String),
    /// Random and undecided rules have more combinations, or jumps more steps, than are traced.
    TooManyPaths,
    /// The chain is not entered because too many chains are nested already.
    TooDeep(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = |masqueraded: &bool| {
            if *masqueraded {
                "masqueraded"
            } else {
                "source kept"
            }
        };
        match self {
            Self::Delivered {
                to,
                port,
                masqueraded,
            } => {
                let to = SocketAddr::new(*to, *port);
                write!(f, "to {to}, {}", source(masqueraded))
            }
            Self::Unanswered {
                to,
                port,
                masqueraded,
                loss,
            } => {
                let to = SocketAddr::new(*to, *port);
                write!(f, "to {to}, {}, reply {loss}", source(masqueraded))
            }
            Self::Passed { masqueraded } => write!(f, "passed, {}", source(masqueraded)),
            Self::Dropped => f.write_str("dropped"),
            Self::Rejected => f.write_str("rejected"),
            Self::Unclear(why) => write!(f, "unclear: {why}"),
        }
    }
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedTarget { table, chain, rule } => write!(
                f,
                "a rule in {table} {chain} matches, but its target is not supported: {rule}"
            ),
            Self::JumpLoop(chain) => write!(f, "jump loop through chain `{chain}`"),
            Self::MissingChain(chain) => write!(f, "chain `{chain}` does not exist"),
            Self::TooDeep(chain) => {
                write!(f, "chain `{chain}` is nested too deeply")
            }
            Self::TooManyPaths => f.write_str("the rules have too many paths"),
        }
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.table, self.chain, self.rule)
    }
}

/// Chain that the first packet of a connection enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraversedChain<'a> {
    pub table: TracedTable,
    pub chain: &'a str,
    /// Number of its rules that are evaluated, whether they match or not.
    pub rules: usize,
}
