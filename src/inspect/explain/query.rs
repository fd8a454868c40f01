//! Queries of `explain` as typed, and the errors of answering them.
//!
//! An address is parsed without any rules; a name has a meaning only in their catalog.

use std::net::IpAddr;
use std::str::FromStr;

use crate::inspect::catalog::{self, InvalidName, NamePattern, NoMatch, Suggestions};
use crate::net::{IpFamily, Port, Protocol, parse_ip};

/// `ADDRESS:PORT[/PROTO]`, `ADDRESS`, `:NODEPORT[/PROTO]` or `[NAMESPACE/]SERVICE[:PORT[/PROTO]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Destination by address, port or both.
    Address(AddressQuery),
    /// Service or service port by name.
    Name(NamePattern),
}

/// Destination as far as it was given: at least the address or the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressQuery {
    /// `None`: any address of the node.
    pub ip: Option<IpAddr>,
    /// `None`: every port that Services have at the address.
    pub port: Option<Port>,
    /// `None`: every protocol that Services have there, or TCP if there is none.
    pub protocol: Option<Protocol>,
}

/// Reason why a text is not a valid query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuery {
    /// Address with a port that is not a number from 1 to 65535.
    #[error("`{0}` is not a valid port (1-65535)")]
    Port(String),
    /// Empty text, or characters that no name has.
    #[error(
        "`{0}` is not a valid address or Service name\n\
         hint: examples are 10.96.0.10:80, [fd00::1]:53/udp and prod/web:http"
    )]
    Form(String),
    /// Protocol that no port has.
    #[error(transparent)]
    Protocol(InvalidName),
}

/// Reason why a query cannot be limited to a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableNamespace {
    /// Name with another namespace.
    #[error(transparent)]
    Other(#[from] catalog::NamespaceMismatch),
    /// Address, which has no namespace.
    #[error("an address has no namespace\nhint: leave --namespace out")]
    Address,
}

impl FromStr for Query {
    type Err = InvalidQuery;

    fn from_str(text: &str) -> Result<Self, InvalidQuery> {
        let form = || InvalidQuery::Form(text.to_owned());
        let (rest, protocol) = split_protocol(text);
        if let Some(rest) = rest.strip_prefix('[') {
            let (inside, after) = rest.split_once(']').unwrap_or_default();
            let ip = parse_ip(inside).ok_or_else(form)?;
            let port = match after.strip_prefix(':') {
                Some(number) => Some(port(number)?),
                None if after.is_empty() => None,
                None => return Err(form()),
            };
            return Ok(Self::address(Some(ip), port, protocol));
        }
        if let Some(ip) = parse_ip(rest) {
            return Ok(Self::address(Some(ip), None, protocol));
        }
        if let Some((before, after)) = rest.rsplit_once(':') {
            let ip = parse_ip(before);
            if ip.is_some() || before.is_empty() {
                return Ok(Self::address(ip, Some(port(after)?), protocol));
            }
        }
        let first = rest.split([':', '/']).next().unwrap_or(rest);
        if is_dotted_number(first) {
            return Err(form());
        }
        let name = text.parse().map_err(|error| match error {
            InvalidName::Form(_) => form(),
            protocol @ InvalidName::Protocol(_) => InvalidQuery::Protocol(protocol),
        });
        name.map(Self::Name)
    }
}

impl Query {
    /// Returns the query limited to a namespace.
    ///
    /// # Errors
    ///
    /// If it is an address, or a name with another namespace.
    pub fn within(&self, namespace: &str) -> Result<Self, UnusableNamespace> {
        match self {
            Self::Name(name) => Ok(Self::Name(name.within(namespace)?)),
            Self::Address(_) => Err(UnusableNamespace::Address),
        }
    }

    fn address(ip: Option<IpAddr>, port: Option<Port>, protocol: Option<Protocol>) -> Self {
        Self::Address(AddressQuery { ip, port, protocol })
    }
}

/// Reports whether a text consists of digits and dots, as no name of a Service does.
fn is_dotted_number(text: &str) -> bool {
    text.contains('.') && text.bytes().all(|c| c == b'.' || c.is_ascii_digit())
}

/// Splits off a protocol after the last slash.
fn split_protocol(text: &str) -> (&str, Option<Protocol>) {
    let Some((rest, last)) = text.rsplit_once('/') else {
        return (text, None);
    };
    match Protocol::from_iptables(&last.to_ascii_lowercase()) {
        Some(protocol) => (rest, Some(protocol)),
        None => (text, None),
    }
}

fn port(text: &str) -> Result<Port, InvalidQuery> {
    text.parse()
        .map_err(|_| InvalidQuery::Port(text.to_owned()))
}

/// Reason why nothing can be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// Name without rules.
    #[error(transparent)]
    Name(#[from] NoMatch),
    /// Name of Services in several namespaces.
    #[error("more than one Service is named `{query}`{similar}")]
    Ambiguous {
        /// Name as typed.
        query: String,
        /// Names of the Services.
        similar: Suggestions,
    },
    /// Address of an IP family of which no rules were given.
    #[error("no {0} rules in the input\nhint: add the output of {program} with --from-save", program = save_program(*.0))]
    Family(IpFamily),
    /// Address without a port that neither a Service nor an endpoint has.
    #[error(
        "{0} is not the address of a Service or an endpoint\n\
         hint: add a port to trace packets to it anyway"
    )]
    Address(IpAddr),
    /// Only pods are selected, and neither their network nor an endpoint is known.
    #[error(
        "cannot determine the addresses of pods\n\
         hint: set --source to one; with manifests or a cluster, set --cluster-cidr to their network"
    )]
    Pods,
    /// No client of the selected kind or family can reach the destination.
    #[error(
        "no such client can reach this destination\n\
         hint: set --source to an address of the destination's IP family"
    )]
    Client,
}

const fn save_program(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "iptables-save",
        IpFamily::V6 => "ip6tables-save",
    }
}
