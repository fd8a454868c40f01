//! Writes the lines of a payload into a byte buffer.
//!
//! A rule is written part by part, in the order in which it reads, with typed arguments and
//! without an allocation.

use std::fmt::{self, Display};
use std::io::Write;
use std::net::IpAddr;

use crate::net::{IpNet, Port, Protocol};
use crate::render::options::LocalDetector;
use crate::ruleset::ServiceChain;

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

    /// Matches a share of the packets that reach the rule.
    pub(super) fn probability(self, share: EvenShare) -> Self {
        self.show(format_args!(
            " -m statistic --mode random --probability {share}"
        ))
    }

    /// Matches local Pod traffic; every packet if the detector is absent.
    pub(super) fn if_local(self, detector: &LocalDetector) -> Self {
        self.detect("", detector)
    }

    /// Matches all other traffic; every packet if the detector is absent.
    pub(super) fn if_not_local(self, detector: &LocalDetector) -> Self {
        self.detect(" !", detector)
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

    fn detect(self, not: &str, detector: &LocalDetector) -> Self {
        match detector {
            LocalDetector::Cidr(net) => self.show(format_args!("{not} -s {net}")),
            LocalDetector::Bridge(name) => self.show(format_args!("{not} -i {name}")),
            LocalDetector::InterfacePrefix(prefix) => self.show(format_args!("{not} -i {prefix}+")),
            LocalDetector::Absent => self,
        }
    }

    fn show(self, text: fmt::Arguments<'_>) -> Self {
        // Writing to a Vec cannot fail.
        let _ = self.buf.write_fmt(text);
        self
    }
}

/// Share that an endpoint gets of the packets that the rules before its own did not match.
///
/// Rules are evaluated in order. For all of `n` endpoints to get the same number of packets, the
/// share of endpoint `i`, counted from 0, must be 1/(n - i). The last one takes the rest, without a
/// match.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `computeProbability` (v1.36)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EvenShare {
    /// Number of endpoints from this one to the last.
    remaining: usize,
}

impl EvenShare {
    /// Returns the share at `position` among `of`; `None` for the last position.
    pub(super) const fn at(position: usize, of: usize) -> Option<Self> {
        let remaining = of.saturating_sub(position);
        if remaining > 1 {
            Some(Self { remaining })
        } else {
            None
        }
    }
}

impl Display for EvenShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "no Service has 2^53 endpoints")]
        let remaining = self.remaining as f64;
        write!(f, "{:.10}", 1.0 / remaining)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(position: usize, of: usize, expected: &str) {
        let shown = EvenShare::at(position, of).map(|share| share.to_string());
        assert_eq!(shown.as_deref().unwrap_or("always"), expected);
    }

    #[test]
    fn shares_are_even_and_have_ten_decimals() {
        check(0, 1, "always");
        check(0, 2, "0.5000000000");
        check(0, 3, "0.3333333333");
        check(1, 3, "0.5000000000");
        check(2, 3, "always");
        check(0, 6, "0.1666666667");
        check(0, 7, "0.1428571429");
    }
}
