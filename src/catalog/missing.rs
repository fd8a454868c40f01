//! What to say of a name that fits no service port.
//!
//! Apart so that a typo is told in the same words by every command.

use super::namespaces::NoNamespace;
use super::pattern::{KINDS, NamePattern};
use super::port::PortName;
use super::similar::{self, Similar};
use crate::net::{Port, Protocol, parse_ip};

/// Why a name fits nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuch {
    /// No Service is called that; perhaps one of these is meant.
    #[error("no Service `{asked}` has rules{}", hints(.asked, .similar))]
    Service {
        /// As asked for.
        asked: NamePattern,
        /// Names that look like it.
        similar: Similar,
    },
    /// The Service has no such port.
    #[error("`{asked}` has no such port{similar}")]
    Port {
        /// As asked for.
        asked: NamePattern,
        /// The ports that it has.
        similar: Similar,
    },
    /// Nothing is in the namespace.
    #[error("{0}")]
    Namespace(NoNamespace),
}

/// Why some names fit nothing: at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(_0))]
pub struct Missing(pub Vec<NoSuch>);

fn lines(all: &[NoSuch]) -> String {
    let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl NoSuch {
    /// Nothing, if the name fits one of those that there are; each comes with the numbers of its
    /// ports.
    pub fn of<'c, N: IntoIterator<Item = u16>>(
        asked: &NamePattern,
        known: &(impl Iterator<Item = (&'c PortName, N)> + Clone),
    ) -> Option<Self> {
        if known
            .clone()
            .any(|(name, numbers)| asked.fits(name, numbers))
        {
            return None;
        }
        let own = known
            .clone()
            .filter(|(name, _)| asked.fits_service(name))
            .map(|(name, numbers)| in_full(name, numbers));
        let own = Similar(own.collect());
        let asked = asked.clone();
        Some(if own.0.is_empty() {
            let similar = similar::services(&asked, known.clone().map(|(name, _)| name));
            Self::Service { asked, similar }
        } else {
            Self::Port {
                asked,
                similar: own,
            }
        })
    }
}

/// A spelling by which the service port can be asked for.
fn in_full(name: &PortName, numbers: impl IntoIterator<Item = u16>) -> String {
    let number = numbers.into_iter().min().map(|number| number.to_string());
    let port = match name.port() {
        "" => number.unwrap_or_default(),
        port => port.to_owned(),
    };
    let (namespace, service) = (name.namespace(), name.service());
    format!("{namespace}/{service}:{port}/{}", name.protocol)
}

/// What may be meant, and what is said of all names only if there is nothing better.
fn hints(asked: &NamePattern, similar: &Similar) -> String {
    match number_hint(asked) {
        Some(hint) if similar.0.is_empty() => hint,
        Some(hint) => format!("{similar}{hint}"),
        None => format!("{similar}{}", reading_hint(asked)),
    }
}

/// A number that was read as a name; hardly any Service is called so.
fn number_hint(asked: &NamePattern) -> Option<String> {
    let text = &asked.service;
    let is_port = |text: &str| text.parse::<Port>().is_ok();
    let (what, meant) = match (&asked.namespace, &asked.port) {
        (None, None) if is_port(text) => ("a port", format!(":{text}")),
        (None, Some(port)) if parse_ip(text).is_some() && is_port(port) => {
            ("an address", format!("{text}:{port}"))
        }
        (None, _) if parse_ip(text).is_some() => ("an address", text.to_string()),
        _ => return None,
    };
    Some(format!(
        "\nhint: is {what} meant? `explain {meant}` and `services --address {meant}` take one"
    ))
}

/// How a part was read that may have been meant otherwise.
fn reading_hint(asked: &NamePattern) -> String {
    let Some(namespace) = asked.namespace.as_deref() else {
        return String::new();
    };
    if KINDS.contains(&namespace) {
        return format!("\nhint: `{namespace}/` is read as a namespace; leave it out");
    }
    match (Protocol::from_iptables(&asked.service), &asked.port) {
        (Some(protocol), None) => {
            format!("\nhint: a protocol comes behind a port: `{namespace}:80/{protocol}`")
        }
        _ => String::new(),
    }
}
