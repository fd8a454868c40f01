//! What somebody wants to have explained, as typed.
//!
//! Apart because an address can be read without any rules, and a name only looked up in them.

use std::net::IpAddr;
use std::str::FromStr;

use crate::inspect::catalog::{InvalidName, NamePattern, NamespaceMismatch};
use crate::net::{Port, Protocol, parse_ip};

/// `ADDRESS:PORT[/PROTO]`, `ADDRESS`, `:NODEPORT[/PROTO]` or `[NAMESPACE/]SERVICE[:PORT[/PROTO]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Something that is asked for by number.
    Address(Address),
    /// Something that is asked for by name.
    Name(NamePattern),
}

/// A destination, as far as it was given; address or port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// `None`: any of the node's.
    pub ip: Option<IpAddr>,
    /// `None`: every one that Services have there.
    pub port: Option<Port>,
    /// `None`: every one that Services have there, or else TCP.
    pub protocol: Option<Protocol>,
}

/// Why a text is no question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoQuestion {
    /// It looks like an address, but its port is no number from 1 to 65535.
    #[error("`{0}` is no port: 1 to 65535")]
    Port(String),
    /// Four numbers, but no address.
    #[error("`{0}` is no address: each of its four numbers is from 0 to 255")]
    Digits(String),
    /// The port stands where the protocol does.
    #[error("`{asked}` has a port behind a slash\nhint: it follows a colon: `{meant}`")]
    Slashes {
        /// As typed.
        asked: String,
        /// The right form.
        meant: String,
    },
    /// What is in brackets is no address of IPv6.
    #[error("`{0}` is no address of IPv6 in brackets")]
    Brackets(String),
    /// It says nothing, or what no name can be.
    #[error(
        "`{0}` is neither an address nor a name: 10.96.0.10:80, [fd00::1]:53/udp, prod/web:http"
    )]
    Nothing(String),
    /// It is nearly a name.
    #[error(transparent)]
    Name(InvalidName),
}

/// Why a question has no meaning in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotThere {
    /// The name says another one.
    #[error(transparent)]
    Other(#[from] NamespaceMismatch),
    /// Only names are in namespaces.
    #[error("an address is in no namespace; leave it out")]
    Address,
}

impl FromStr for Question {
    type Err = NoQuestion;

    fn from_str(text: &str) -> Result<Self, NoQuestion> {
        let (rest, protocol) = split_protocol(text);
        if let Some(rest) = rest.strip_prefix('[') {
            let (inside, after) = rest.split_once(']').unwrap_or_default();
            let ip = parse_ip(inside).ok_or_else(|| NoQuestion::Brackets(rest.to_owned()))?;
            let port = after.strip_prefix(':').map(port).transpose()?;
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
        if let Some((before, after)) = rest.split_once('/')
            && parse_ip(before).is_some()
        {
            return Err(NoQuestion::Slashes {
                asked: text.to_owned(),
                meant: with_protocol(format!("{before}:{after}"), protocol),
            });
        }
        let first = rest.split([':', '/']).next().unwrap_or(rest);
        if is_all_numbers(first) {
            return Err(NoQuestion::Digits(first.to_owned()));
        }
        let name = text.parse().map_err(|error| match error {
            InvalidName::Form(_) => NoQuestion::Nothing(text.to_owned()),
            nearly => NoQuestion::Name(nearly),
        });
        name.map(Self::Name)
    }
}

impl Question {
    /// The same in a namespace.
    ///
    /// # Errors
    ///
    /// If it is a name in another one; addresses are in none.
    pub fn within(&self, namespace: &str) -> Result<Self, NotThere> {
        match self {
            Self::Name(name) => Ok(Self::Name(name.within(namespace)?)),
            Self::Address(_) => Err(NotThere::Address),
        }
    }

    fn address(ip: Option<IpAddr>, port: Option<Port>, protocol: Option<Protocol>) -> Self {
        Self::Address(Address { ip, port, protocol })
    }
}

/// Four numbers with dots between them are the name of no Service.
fn is_all_numbers(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    text.split('.').count() == 4 && text.split('.').all(is_number)
}

fn with_protocol(text: String, protocol: Option<Protocol>) -> String {
    match protocol {
        Some(protocol) => format!("{text}/{protocol}"),
        None => text,
    }
}

/// A protocol behind the last slash.
fn split_protocol(text: &str) -> (&str, Option<Protocol>) {
    let Some((rest, last)) = text.rsplit_once('/') else {
        return (text, None);
    };
    match Protocol::from_iptables(&last.to_ascii_lowercase()) {
        Some(protocol) => (rest, Some(protocol)),
        None => (text, None),
    }
}

fn port(text: &str) -> Result<Port, NoQuestion> {
    text.parse().map_err(|_| NoQuestion::Port(text.to_owned()))
}
