//! A name of Services as users type it.
//!
//! Apart because every command that takes a name means the same by it; which service ports a name
//! fits is decided here, and what to say if it fits none in [`missing`](super::missing).

use std::fmt;
use std::str::FromStr;

use super::port::PortName;
use crate::net::Protocol;

/// `[NAMESPACE/]SERVICE[:PORT[/PROTOCOL]]`. Any value is legal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    /// Any, if it is not said.
    pub namespace: Option<Box<str>>,
    /// The Service's name.
    pub service: Box<str>,
    /// The port's name or number; any, if it is not said.
    pub port: Option<Box<str>>,
    /// Any, if it is not said.
    pub protocol: Option<Protocol>,
}

/// No Service can have this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoName {
    /// It says nothing, or what no name can be.
    #[error("`{0}` is no name; use `web`, `shop/web`, `shop/web:http` or `shop/web:53/udp`")]
    Form(String),
    /// A protocol without a port.
    #[error("`{text}` is no name; a protocol comes behind a port: `{meant}:80/{protocol}`")]
    Portless {
        /// As typed.
        text: String,
        /// The part before the protocol.
        meant: String,
        /// The protocol.
        protocol: Protocol,
    },
    /// A port behind a slash.
    #[error("`{text}` is no name; a port comes behind a colon: `{meant}`")]
    Slashed {
        /// As typed.
        text: String,
        /// With the colon.
        meant: String,
    },
    /// What is behind the port is no protocol.
    #[error("`{0}` is no protocol; it is one of tcp, udp and sctp")]
    Protocol(String),
}

/// A name in another namespace than the one that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not in namespace `{namespace}`; leave one of the two out")]
pub struct OtherNamespace {
    name: NamePattern,
    namespace: String,
}

/// How kubectl calls the kind in front of a name.
pub(super) const KINDS: [&str; 3] = ["svc", "service", "services"];

impl FromStr for NamePattern {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        let form = || NoName::Form(text.to_owned());
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
            [namespace, service, last] if port.is_none() && can_be_named(last) => {
                let (text, meant) = (text.to_owned(), format!("{namespace}/{service}"));
                return Err(match protocol_of(last) {
                    Some(protocol) => NoName::Portless {
                        text,
                        meant,
                        protocol,
                    },
                    None => NoName::Slashed {
                        text,
                        meant: format!("{meant}:{last}"),
                    },
                });
            }
            [namespace, service, port, protocol] if protocol_of(protocol).is_some() => {
                return Err(NoName::Slashed {
                    text: text.to_owned(),
                    meant: format!("{namespace}/{service}:{port}/{protocol}"),
                });
            }
            _ => return Err(form()),
        };
        let parts = [namespace, Some(service), port];
        if !parts.into_iter().flatten().all(can_be_named) {
            return Err(form());
        }
        Ok(Self {
            namespace: namespace.map(Box::from),
            service: service.into(),
            port: port.map(Box::from),
            protocol,
        })
    }
}

/// `53/udp`.
fn split_protocol(port: &str) -> Result<(&str, Option<Protocol>), NoName> {
    let Some((port, protocol)) = port.split_once('/') else {
        return Ok((port, None));
    };
    let known = protocol_of(protocol);
    let known = known.ok_or_else(|| NoName::Protocol(protocol.to_owned()))?;
    Ok((port, Some(known)))
}

fn protocol_of(text: &str) -> Option<Protocol> {
    Protocol::from_iptables(&text.to_ascii_lowercase())
}

fn can_be_named(text: &str) -> bool {
    let mut letters = text.chars();
    !text.is_empty() && letters.all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
}

impl NamePattern {
    /// The same in a namespace. `svc/web` is kubectl's `web` there.
    ///
    /// # Errors
    ///
    /// If it is a name in another one.
    pub fn within(&self, namespace: &str) -> Result<Self, OtherNamespace> {
        match self.namespace.as_deref() {
            Some(own) if own != namespace && !KINDS.contains(&own) => Err(OtherNamespace {
                name: self.clone(),
                namespace: namespace.to_owned(),
            }),
            _ => Ok(Self {
                namespace: Some(namespace.into()),
                ..self.clone()
            }),
        }
    }

    /// Whether a port of this Service is meant, whichever it is.
    pub fn fits_service(&self, name: &PortName) -> bool {
        let namespace = self.namespace.as_deref();
        *self.service == *name.service() && namespace.is_none_or(|asked| asked == name.namespace())
    }

    /// Whether a service port is meant that is reached at ports of these numbers.
    pub fn fits(&self, name: &PortName, numbers: impl IntoIterator<Item = u16>) -> bool {
        let is_port = |asked: &str| {
            // A port's name has a letter in it.
            asked == name.port()
                || asked
                    .parse()
                    .is_ok_and(|asked: u16| numbers.into_iter().any(|number| number == asked))
        };
        self.fits_service(name)
            && self.port.as_deref().is_none_or(is_port)
            && self
                .protocol
                .is_none_or(|asked| asked.as_str() == &*name.protocol)
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
