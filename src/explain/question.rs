//! What somebody wants to have explained, as typed.
//!
//! Apart because an address can be read without any rules, and a name only looked up in them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::net::{Port, Protocol, parse_ip};

/// `ADDRESS:PORT[/PROTO]`, `ADDRESS`, `:NODEPORT[/PROTO]` or `[NAMESPACE/]SERVICE[:PORT][/PROTO]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Something that is asked for by number.
    Address(Address),
    /// Something that is asked for by name.
    Name(Name),
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

/// The name of Services, as far as it was given. Any value is legal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// `None`: the only one that has such a Service.
    pub namespace: Option<Box<str>>,
    /// The Service's name.
    pub service: Box<str>,
    /// The port's name or number; `None`: every port.
    pub port: Option<Box<str>>,
    /// `None`: any.
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
        if let Some(question) = name(rest, protocol) {
            return Ok(question);
        }
        let colon = rest
            .rsplit_once('/')
            .map(|(before, port)| format!("{before}:{port}"));
        Err(
            match colon.filter(|meant| name(meant, protocol).is_some()) {
                Some(meant) => NoQuestion::Slashes {
                    asked: text.to_owned(),
                    meant: with_protocol(meant, protocol),
                },
                None => NoQuestion::Nothing(text.to_owned()),
            },
        )
    }
}

impl Question {
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

/// A protocol behind the last slash. A Service may be called `udp`, but then it has a namespace and
/// no other slash behind it.
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

fn name(text: &str, protocol: Option<Protocol>) -> Option<Question> {
    let (namespace, rest) = match text.split_once('/') {
        Some((namespace, rest)) => (Some(namespace), rest),
        None => (None, text),
    };
    let (service, port) = match rest.split_once(':') {
        Some((service, port)) => (service, Some(port)),
        None => (rest, None),
    };
    let all = [namespace, Some(service), port];
    let is_name = |text: &str| {
        let mut letters = text.chars();
        !text.is_empty() && letters.all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
    };
    all.into_iter().flatten().all(is_name).then(|| {
        Question::Name(Name {
            namespace: namespace.map(Box::from),
            service: service.into(),
            port: port.map(Box::from),
            protocol,
        })
    })
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.service)?;
        if let Some(port) = &self.port {
            write!(f, ":{port}")?;
        }
        self.protocol
            .map_or(Ok(()), |protocol| write!(f, "/{protocol}"))
    }
}
