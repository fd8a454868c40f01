//! Names of service ports, and the patterns that users type for them.
//!
//! Every command parses a name here, so that one spelling selects the same service ports
//! everywhere. Suggestions for a name without a match are made in [`query`](super::query).

use std::fmt;
use std::str::FromStr;

use crate::net::Protocol;
use crate::rules::Rule;
use crate::ruleset::PortComment;

/// Name of a service port: `namespace/name:port`, and the protocol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName {
    /// Spelling in comments of rules; without `:port` if the port has no name.
    pub name: Box<str>,
    /// Protocol in lower case.
    pub protocol: Box<str>,
}

impl PortName {
    /// Returns the service port that a rule of a dispatch chain is about, and its comment. `None`
    /// for rules without a service port: their comment is missing or begins with `kubernetes`.
    pub fn of_dispatch_rule(rule: &Rule) -> Option<(Self, Option<PortComment>)> {
        let comment = rule.comment()?;
        let (name, _) = comment.split_once(' ').unwrap_or((comment, ""));
        let protocol = rule.protocol.as_ref()?.value.as_ref();
        name.split_once('/')?;
        let key = Self {
            name: name.into(),
            protocol: protocol.into(),
        };
        let parsed = PortComment::parse(comment);
        Some((key, parsed.map(|(comment, _)| comment)))
    }

    /// Returns the namespace of the Service.
    pub fn namespace(&self) -> &str {
        self.name
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// Returns the name of the Service, without its namespace.
    pub fn service(&self) -> &str {
        let (_, rest) = self.name.split_once('/').unwrap_or(("", &self.name));
        rest.split_once(':').map_or(rest, |(service, _)| service)
    }

    /// Returns the name of the port, empty if it has none.
    pub fn port(&self) -> &str {
        self.name.split_once(':').map_or("", |(_, port)| port)
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.protocol)
    }
}

/// Pattern of service ports: `[NAMESPACE/]SERVICE[:PORT[/PROTOCOL]]`. Any value is legal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    /// Namespace; `None`: any.
    pub namespace: Option<Box<str>>,
    /// Name of the Service.
    pub service: Box<str>,
    /// Name or number of the port; `None`: any.
    pub port: Option<Box<str>>,
    /// Protocol; `None`: any.
    pub protocol: Option<Protocol>,
}

/// Text that cannot be the name of a Service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Text that is empty, or has invalid characters or parts.
    #[error(
        "`{0}` is not a valid Service name; use `web`, `shop/web`, `shop/web:http` or `shop/web:53/udp`"
    )]
    Form(String),
    /// Protocol that no port has.
    #[error("unknown protocol `{0}`: must be tcp, udp or sctp")]
    Protocol(String),
}

/// Name with another namespace than the one of the query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not in namespace `{namespace}`; leave one of the two out")]
pub struct NamespaceMismatch {
    name: NamePattern,
    namespace: String,
}

/// Resource names that kubectl accepts before the name of a Service, as in `svc/web`.
const KINDS: [&str; 3] = ["svc", "service", "services"];

impl FromStr for NamePattern {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let invalid = || InvalidName::Form(text.to_owned());
        let (path, port) = match text.split_once(':') {
            Some((path, port)) => (path, Some(port)),
            None => (text, None),
        };
        let (port, protocol) = match port.map(split_protocol).transpose()? {
            Some((port, protocol)) => (Some(port), protocol),
            None => (None, None),
        };
        let (namespace, service) = match path.split('/').collect::<Vec<_>>().as_slice() {
            [service] => (None, *service),
            [namespace, service] => (Some(*namespace), *service),
            [kind, namespace, service] if KINDS.contains(kind) => (Some(*namespace), *service),
            _ => return Err(invalid()),
        };
        let parts = [namespace, Some(service), port];
        if !parts.into_iter().flatten().all(is_name_like) {
            return Err(invalid());
        }
        Ok(Self {
            namespace: namespace.map(Box::from),
            service: service.into(),
            port: port.map(Box::from),
            protocol,
        })
    }
}

/// Splits `53/udp`.
fn split_protocol(port: &str) -> Result<(&str, Option<Protocol>), InvalidName> {
    let Some((port, protocol)) = port.split_once('/').filter(|(port, _)| !port.is_empty()) else {
        return Ok((port, None));
    };
    let known = Protocol::from_iptables(&protocol.to_ascii_lowercase());
    let known = known.ok_or_else(|| InvalidName::Protocol(protocol.to_owned()))?;
    Ok((port, Some(known)))
}

fn is_name_like(text: &str) -> bool {
    let mut letters = text.chars();
    !text.is_empty() && letters.all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
}

impl NamePattern {
    /// Returns the pattern restricted to a namespace. `svc/web` is read as `web`, as kubectl does.
    ///
    /// # Errors
    ///
    /// The pattern has another namespace.
    pub fn within(&self, namespace: &str) -> Result<Self, NamespaceMismatch> {
        match self.namespace.as_deref() {
            Some(own) if own != namespace && !KINDS.contains(&own) => Err(NamespaceMismatch {
                name: self.clone(),
                namespace: namespace.to_owned(),
            }),
            _ => Ok(Self {
                namespace: Some(namespace.into()),
                ..self.clone()
            }),
        }
    }

    /// Reports whether the Service of a service port matches, whatever the port.
    pub fn fits_service(&self, name: &PortName) -> bool {
        let namespace = self.namespace.as_deref();
        *self.service == *name.service() && namespace.is_none_or(|own| own == name.namespace())
    }

    /// Reports whether a service port matches; `numbers` are the port numbers of its frontends.
    pub fn fits(&self, name: &PortName, numbers: impl IntoIterator<Item = u16>) -> bool {
        let is_port = |port: &str| {
            // No ambiguity: the name of a port has at least one letter.
            port == name.port()
                || port
                    .parse()
                    .is_ok_and(|port: u16| numbers.into_iter().any(|number| number == port))
        };
        self.fits_service(name)
            && self.port.as_deref().is_none_or(is_port)
            && self
                .protocol
                .is_none_or(|protocol| protocol.as_str() == &*name.protocol)
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.service)?;
        if let Some(port) = &self.port {
            write!(f, ":{port}")?;
        }
        match self.protocol {
            Some(protocol) => write!(f, "/{protocol}"),
            None => Ok(()),
        }
    }
}
