//! Writes one rule, part by part, into a byte buffer.
//!
//! Apart so that a rule is written in the order in which it reads, typed at the call site, and
//! without a single allocation.

use std::fmt::Display;
use std::io::Write;
use std::net::IpAddr;

use super::balance::Probability;
use super::chain::ServiceChain;
use super::options::LocalDetector;
use crate::net::{IpNet, Port, Protocol};

/// The rest of one rule: everything behind its chain. Ends the line when it has its verdict.
pub(super) struct Pen<'a> {
    buf: &'a mut Vec<u8>,
}

impl<'a> Pen<'a> {
    /// Continues a rule; the chain has been written.
    pub(super) const fn new(buf: &'a mut Vec<u8>) -> Self {
        Self { buf }
    }

    /// `-A CHAIN`, by name.
    pub(super) fn append(buf: &'a mut Vec<u8>, chain: &str) -> Self {
        buf.extend_from_slice(b"-A ");
        buf.extend_from_slice(chain.as_bytes());
        Self { buf }
    }

    /// `-A CHAIN`, a Service's.
    pub(super) fn append_to(buf: &'a mut Vec<u8>, chain: ServiceChain) -> Self {
        buf.extend_from_slice(b"-A ");
        chain.write(buf);
        Self { buf }
    }

    /// A comment; quoted because it holds blanks.
    pub(super) fn comment(self, text: impl Display) -> Self {
        self.show(format_args!(" -m comment --comment \"{text}\""))
    }

    /// A comment that is a single word.
    pub(super) fn bare_comment(self, text: impl Display) -> Self {
        self.show(format_args!(" -m comment --comment {text}"))
    }

    /// Words that have no parameters.
    pub(super) fn words(self, words: &str) -> Self {
        self.buf.push(b' ');
        self.buf.extend_from_slice(words.as_bytes());
        self
    }

    /// The protocol, and the match that knows its ports.
    pub(super) fn protocol(self, protocol: Protocol) -> Self {
        let name = protocol.as_str();
        self.words("-m").words(name).words("-p").words(name)
    }

    /// One destination address.
    pub(super) fn destination(self, ip: IpAddr) -> Self {
        self.show(format_args!(" -d {ip}"))
    }

    /// One source address.
    pub(super) fn source(self, ip: IpAddr) -> Self {
        self.show(format_args!(" -s {ip}"))
    }

    /// A source network.
    pub(super) fn source_net(self, net: IpNet) -> Self {
        self.show(format_args!(" -s {net}"))
    }

    /// The destination port; needs [`Pen::protocol`] before it.
    pub(super) fn destination_port(self, port: Port) -> Self {
        self.words("--dport").number(port.get().into())
    }

    /// A number.
    pub(super) fn number(self, number: u64) -> Self {
        self.words(itoa::Buffer::new().format(number))
    }

    /// A Service's chain as an argument.
    pub(super) fn chain(self, chain: ServiceChain) -> Self {
        self.buf.push(b' ');
        chain.write(self.buf);
        self
    }

    /// A share of the packets that get here.
    pub(super) fn probability(self, share: Probability) -> Self {
        self.show(format_args!(
            " -m statistic --mode random --probability {share}"
        ))
    }

    /// Traffic from this node's pods. Nothing if it cannot be told.
    pub(super) fn if_local(self, detector: &LocalDetector) -> Self {
        self.detect("", detector)
    }

    /// Traffic from elsewhere. Nothing if it cannot be told.
    pub(super) fn if_not_local(self, detector: &LocalDetector) -> Self {
        self.detect(" !", detector)
    }

    /// The verdict is another chain or a target; ends the rule.
    pub(super) fn jump(self, target: &str) {
        self.words("-j").words(target).end();
    }

    /// The verdict is a Service's chain; ends the rule.
    pub(super) fn jump_to(self, chain: ServiceChain) {
        self.words("-j").chain(chain).end();
    }

    /// The verdict is an endpoint; ends the rule.
    pub(super) fn dnat(self, endpoint: &[u8]) {
        let pen = self.words("-j DNAT --to-destination ");
        pen.buf.extend_from_slice(endpoint);
        pen.end();
    }

    /// Ends a rule that has no verdict.
    pub(super) fn end(self) {
        self.buf.push(b'\n');
    }

    fn detect(self, not: &str, detector: &LocalDetector) -> Self {
        match detector {
            LocalDetector::Cidr(net) => self.show(format_args!("{not} -s {net}")),
            LocalDetector::Bridge(name) => self.show(format_args!("{not} -i {name}")),
            LocalDetector::InterfacePrefix(prefix) => self.show(format_args!("{not} -i {prefix}+")),
            LocalDetector::Absent => self,
        }
    }

    fn show(self, text: std::fmt::Arguments<'_>) -> Self {
        // Writing to a Vec cannot fail.
        let _ = self.buf.write_fmt(text);
        self
    }
}
