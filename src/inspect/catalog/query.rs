//! Names of service ports, patterns that users type for them, and queries of several.
//!
//! Every command parses and selects here, so that one spelling selects the same service ports
//! everywhere, and a typo gets the same answer.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::net::Protocol;
use crate::rules::Rule;
use crate::ruleset::PortComment;
use crate::text::first_of;

/// Name of a service port: `namespace/name:port`, and the protocol. Sorted by namespace, Service,
/// port and protocol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

    pub fn namespace(&self) -> &str {
        self.name
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    pub fn service(&self) -> &str {
        let (_, rest) = self.name.split_once('/').unwrap_or(("", &self.name));
        rest.split_once(':').map_or(rest, |(service, _)| service)
    }

    /// Returns the name of the port, empty if it has none.
    pub fn port(&self) -> &str {
        self.name.split_once(':').map_or("", |(_, port)| port)
    }
}

impl Ord for PortName {
    fn cmp(&self, other: &Self) -> Ordering {
        // Before every character of a name, so that `a/b` comes before `a-b/c`.
        let rank = |byte: u8| if matches!(byte, b'/' | b':') { 0 } else { byte };
        let of_names = self
            .name
            .bytes()
            .map(rank)
            .cmp(other.name.bytes().map(rank));
        let of_protocols = || self.protocol.cmp(&other.protocol);
        // The names of odd rules may differ in nothing but these characters.
        let of_bytes = || self.name.cmp(&other.name);
        of_names.then_with(of_protocols).then_with(of_bytes)
    }
}

impl PartialOrd for PortName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.protocol)
    }
}

/// Pattern of service ports: `[NAMESPACE/]SERVICE[:PORT[/PROTOCOL]]`, or with the DNS name of a
/// Service, `SERVICE.NAMESPACE[.svc[.DOMAIN]]`. Any value is legal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    /// Namespace; `None`: any.
    pub namespace: Option<Box<str>>,
    pub service: Box<str>,
    /// Name or number of the port; `None`: any.
    pub port: Option<Box<str>>,
    /// Protocol; `None`: any.
    pub protocol: Option<Protocol>,
    /// Written as a DNS name, which resolves to cluster IPs only.
    pub is_dns: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    #[error(
        "`{0}` is not a valid Service name; use `web`, `shop/web`, `web.shop.svc`, `shop/web:http` or `shop/web:53/udp`"
    )]
    Form(String),
    #[error("unknown protocol `{0}`: must be tcp, udp or sctp")]
    Protocol(String),
}

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
            [name] if name.contains('.') => {
                let (service, namespace) = of_dns(name).ok_or_else(invalid)?;
                (Some(namespace), service)
            }
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
            is_dns: path.contains('.') && !path.contains('/'),
        })
    }
}

/// Returns the Service and the namespace of a DNS name. No label of these has a dot.
fn of_dns(name: &str) -> Option<(&str, &str)> {
    let labels: Vec<&str> = name.strip_suffix('.').unwrap_or(name).split('.').collect();
    match labels.as_slice() {
        [service, namespace] | [service, namespace, "svc", ..] => Some((service, namespace)),
        _ => None,
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

/// Query for service ports by names, namespace, or both. Empty: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortQuery {
    names: Vec<NamePattern>,
    namespace: Option<Box<str>>,
}

impl PortQuery {
    /// Creates a query for service ports that match any of the names, and are in the namespace.
    ///
    /// # Errors
    ///
    /// A name has another namespace.
    pub fn new(names: &[NamePattern], namespace: Option<&str>) -> Result<Self, NamespaceMismatch> {
        let within = |name: &NamePattern| match namespace {
            Some(namespace) => name.within(namespace),
            None => Ok(name.clone()),
        };
        Ok(Self {
            names: names.iter().map(within).collect::<Result<_, _>>()?,
            namespace: namespace.map(Box::from),
        })
    }

    pub fn is_all(&self) -> bool {
        self.names.is_empty() && self.namespace.is_none()
    }

    /// Reports whether a service port matches; `numbers` are the port numbers of its frontends.
    pub fn fits(&self, name: &PortName, numbers: &(impl IntoIterator<Item = u16> + Clone)) -> bool {
        let namespace = self.namespace.as_deref();
        let mut names = self.names.iter();
        namespace.is_none_or(|namespace| namespace == name.namespace())
            && (self.names.is_empty() || names.any(|one| one.fits(name, numbers.clone())))
    }

    /// Checks that each name has a match, or without names that the namespace has one. Known
    /// service ports come with the port numbers of their frontends. `unknown` are parts of the
    /// rules that may be of other service ports.
    ///
    /// # Errors
    ///
    /// The names without a match, in their order; or the namespace.
    pub fn check<'c, N: IntoIterator<Item = u16>>(
        &self,
        known: &(impl Iterator<Item = (&'c PortName, N)> + Clone),
        unknown: UnknownRules,
    ) -> Result<(), NoMatches> {
        if let ([], Some(namespace)) = (self.names.as_slice(), &self.namespace) {
            let known = known.clone().map(|(name, _)| name);
            let missing = unknown_namespace(namespace, known).map(NoMatch::Namespace);
            return missing.map_or(Ok(()), |missing| Err(NoMatches(vec![missing])));
        }
        let names = self.names.iter();
        let without_match = names.filter_map(|name| NoMatch::of(name, known, unknown));
        match without_match.collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            some => Err(NoMatches(some)),
        }
    }
}

/// Parts of rules that may be of service ports, and do not show of which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnknownRules {
    /// Rules that cannot be read.
    pub unreadable: usize,
    /// Rules of dispatch chains among these: each may be a frontend.
    pub unreadable_frontends: usize,
    /// IP families whose nat table, with nearly all rules of Services, was not read, although
    /// their filter table was.
    pub families_without_nat: usize,
}

impl UnknownRules {
    /// Adds those of another family.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            unreadable: self.unreadable + other.unreadable,
            unreadable_frontends: self.unreadable_frontends + other.unreadable_frontends,
            families_without_nat: self.families_without_nat + other.families_without_nat,
        }
    }

    /// Reports whether the rules show all service ports.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Names without a match: at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(_0))]
pub struct NoMatches(pub Vec<NoMatch>);

fn lines(all: &[NoMatch]) -> String {
    let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
    lines.join("\nerror: ")
}

/// Part of a query that no service port matches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMatch {
    #[error("{}{suggestions}{HEADLESS}", no_service(.pattern, *.unknown))]
    Service {
        pattern: NamePattern,
        suggestions: Suggestions,
        unknown: UnknownRules,
    },
    #[error("`{pattern}` has no such port{suggestions}")]
    Port {
        pattern: NamePattern,
        suggestions: Suggestions,
    },
    /// No Service of the namespace has rules, although other namespaces have some. Reported because
    /// an empty list would hide a typo.
    #[error("{0}")]
    Namespace(String),
}

impl NoMatch {
    /// Returns the error for a pattern, or `None` if it matches. Known service ports come with the
    /// port numbers of their frontends.
    pub fn of<'c, N: IntoIterator<Item = u16>>(
        pattern: &NamePattern,
        known: &(impl Iterator<Item = (&'c PortName, N)> + Clone),
        unknown: UnknownRules,
    ) -> Option<Self> {
        if known
            .clone()
            .any(|(name, numbers)| pattern.fits(name, numbers))
        {
            return None;
        }
        let of_service = known
            .clone()
            .filter(|(name, _)| pattern.fits_service(name))
            .map(|(name, numbers)| full_pattern(name, numbers));
        let of_service = Suggestions(of_service.collect());
        let pattern = pattern.clone();
        Some(if of_service.0.is_empty() {
            let known = known.clone().map(|(name, _)| name);
            let suggestions = similar_services(&pattern, known);
            Self::Service {
                pattern,
                suggestions,
                unknown,
            }
        } else {
            Self::Port {
                pattern,
                suggestions: of_service,
            }
        })
    }
}

/// Hint for every name without rules: the rules do not show why.
const HEADLESS: &str = "\nhint: headless Services and those of type ExternalName have no rules";

/// Renders that no Service matches, as far as the rules show it.
fn no_service(pattern: &NamePattern, unknown: UnknownRules) -> String {
    if unknown.families_without_nat > 0 {
        return format!(
            "no Service `{pattern}` has rules in the tables that were read\n\
             hint: save the nat table as well, which has nearly all rules of Services"
        );
    }
    match unknown.unreadable {
        0 => format!("no Service `{pattern}` has rules"),
        unreadable => format!(
            "no Service `{pattern}` has rules among those that can be read\n\
             hint: save the rules again: {unreadable} cannot be read, and may be its rules"
        ),
    }
}

fn full_pattern(name: &PortName, numbers: impl IntoIterator<Item = u16>) -> String {
    let number = numbers.into_iter().min().map(|number| number.to_string());
    let port = match name.port() {
        "" => number.unwrap_or_default(),
        port => port.to_owned(),
    };
    let (namespace, service) = (name.namespace(), name.service());
    format!("{namespace}/{service}:{port}/{}", name.protocol)
}

/// Renders that no known service port is in a namespace; `None` if one is, or if none is known.
pub(super) fn unknown_namespace<'c>(
    namespace: &str,
    known: impl Iterator<Item = &'c PortName>,
) -> Option<String> {
    let all: BTreeSet<&str> = known.map(PortName::namespace).collect();
    if all.is_empty() || all.contains(namespace) {
        return None;
    }
    let shown = first_of(all.iter().map(|name| format!("`{name}`")), MAX_SUGGESTIONS);
    Some(format!(
        "no Service of namespace `{namespace}` has rules\nhint: namespaces with rules: {shown}"
    ))
}

/// Names that may have been meant instead, sorted; may be empty. Displayed as a hint on a line of
/// its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Suggestions(pub BTreeSet<String>);

impl fmt::Display for Suggestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|name| format!("`{name}`")).collect();
        match names.as_slice() {
            [] => f.write_str("\nhint: run `deltaproxy services` to list Services with rules"),
            [only] => write!(f, "\nhint: did you mean {only}?"),
            names => write!(f, "\nhint: did you mean one of {}?", names.join(", ")),
        }
    }
}

/// Maximum suggestions in one hint: more would not be read.
const MAX_SUGGESTIONS: usize = 5;

/// Returns Services whose name is equal in another namespace, contains the other or is contained
/// in it, or differs by at most two letters.
fn similar_services<'c>(
    pattern: &NamePattern,
    known: impl Iterator<Item = &'c PortName>,
) -> Suggestions {
    let mut near = BTreeSet::new();
    for name in known {
        let service = name.service();
        let distance = distance(service, &pattern.service);
        // A wrong namespace is less likely than a wrong letter.
        let namespace = pattern.namespace.as_deref();
        let is_elsewhere = namespace.is_some_and(|wanted| wanted != name.namespace());
        if distance <= MAX_DISTANCE {
            near.insert((
                distance + usize::from(is_elsewhere),
                format!("{}/{service}", name.namespace()),
            ));
        }
    }
    let nearest = near.into_iter().take(MAX_SUGGESTIONS);
    Suggestions(nearest.map(|(_, name)| name).collect())
}

/// Maximum distance of a suggestion: two transposed letters count as two edits.
const MAX_DISTANCE: usize = 2;

/// Returns the edit distance, or 1 if one name contains the other.
fn distance(known: &str, wanted: &str) -> usize {
    match () {
        () if known == wanted => 0,
        () if known.contains(wanted) || wanted.contains(known) => 1,
        () => strsim::levenshtein(known, wanted),
    }
}
