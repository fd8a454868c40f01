//! Reads the values of fields: names, protocols, port numbers, the addresses and source ranges of
//! a Service, and texts that many objects repeat. A value that is not valid becomes a diagnostic,
//! which the shell logs.
//!
//! An invalid source range must not admit clients that it was meant to keep out.
//!
//! Upstream: pkg/proxy/util/utils.go, `GetClusterIPByFamily`, `MapIPsByIPFamily` (v1.37)

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::object::{Metadata, ServiceObject, ServiceSpec};
use crate::model::Kind;
use crate::net::{IpFamily, IpNet, Port, Protocol, is_unroutable, parse_cidr, parse_ip};

/// Reports whether `text` is usable as the name of a namespace, a Service or a port, and adds a
/// diagnostic if it is not.
///
/// Accepts capitals, underscores and dots, which the API does not, except as first character: a
/// comment of one word that begins with `-` would be read as an option.
pub(super) fn is_valid_name(text: &str, field: &str, diagnostics: &mut DiagnosticList<'_>) -> bool {
    let problem = match text {
        "" => "is missing".to_owned(),
        text if text.len() > LONGEST => format!("{} is too long for a name", quoted(text)),
        text if !is_name(text) => format!("{} is not a valid name", quoted(text)),
        _ => return true,
    };
    diagnostics.note(field, format!("{problem}; the object is skipped"));
    false
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(is_part)
}

/// Maximum of the API for each of the three, in bytes. With the longest text around them (`route
/// LOCAL traffic for … external destinations`) a comment stays below 255 bytes.
const LONGEST: usize = 63;

/// Returns the protocol, TCP if absent. `place` is its path, for the diagnostic.
pub(super) fn protocol<'a, 'b: 'a>(
    text: &str,
    place: impl FnOnce() -> (String, &'a mut DiagnosticList<'b>),
) -> Option<Protocol> {
    let text = if text.is_empty() { "TCP" } else { text };
    let protocol = Protocol::from_api(text);
    if protocol.is_none() {
        let (field, diagnostics) = place();
        let problem = format!(
            "{} is not a valid protocol; the port is skipped",
            quoted(text)
        );
        diagnostics.note(field, problem);
    }
    protocol
}

/// Returns `number` as a port; `None` outside 1 to 65535.
pub(super) fn port_number(number: i64) -> Option<Port> {
    u16::try_from(number).ok().and_then(Port::new)
}

/// Set of shared texts.
///
/// # Invariants
///
/// Unused texts are dropped before the set doubles, so that it holds at most twice the used ones.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    /// Size at which unused texts are dropped.
    sweep_at: usize,
}

impl Interner {
    /// Returns the shared copy of `text`.
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        if self.texts.len() >= self.sweep_at.max(SMALLEST_SWEEP) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.texts.len().saturating_mul(2);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

/// Minimum size for that, in texts: below it the search costs more than the memory it frees.
const SMALLEST_SWEEP: usize = 256;

/// Returns the cluster IP of `family`: by index of `ipFamilies`, or the only one.
///
/// Differs from upstream: with an address that is not valid, or not of the family that it is
/// listed for, there are no rules in that family; kube-proxy writes a rule that makes the whole
/// restore fail.
pub(super) fn cluster_ip(
    spec: &ServiceSpec,
    family: IpFamily,
    diagnostics: &mut DiagnosticList<'_>,
) -> Option<IpAddr> {
    if spec.ip_families.is_empty() {
        let text = &spec.cluster_ip;
        let ip = parse_ip(text);
        // Reported for one family only, since it is one field.
        if ip.is_none() && family == IpFamily::V4 {
            diagnostics.note(
                "spec.clusterIP",
                format!("{} is not a valid address", quoted(text)),
            );
        }
        return ip.filter(|&ip| IpFamily::of(ip) == family);
    }
    let mut listed = spec.ip_families.iter().zip(&spec.cluster_ips).enumerate();
    let (index, (_, text)) = listed
        .find(|(_, (listed, _))| *listed == family.as_str())
        .filter(|(_, (_, text))| !text.is_empty())?;
    let ip = parse_ip(text).filter(|&ip| IpFamily::of(ip) == family);
    if ip.is_none() {
        let problem = format!("{} is not a valid {family} address", quoted(text));
        diagnostics.note(format!("spec.clusterIPs[{index}]"), problem);
    }
    ip
}

/// Returns the source ranges of a family; none, which admits all clients, if one of them covers
/// all addresses. `0.0.0.0/0` does not admit IPv6 clients.
pub(super) fn ranges_of(family: IpFamily, ranges: &[IpNet]) -> Box<[IpNet]> {
    let ranges: Vec<IpNet> = ranges
        .iter()
        .copied()
        .filter(|&range| IpFamily::of_cidr(range) == family)
        .collect();
    if ranges.iter().any(|range| range.prefix_len() == 0) {
        return Box::default();
    }
    ranges.into()
}

/// Parses the texts of a list. One that cannot be parsed is skipped, with a diagnostic for the
/// `field` of its index.
pub(super) fn parse_each<'t, T>(
    texts: impl Iterator<Item = (usize, &'t String)>,
    parse: impl Fn(&str) -> Result<T, &'static str>,
    field: impl Fn(usize) -> String,
    diagnostics: &mut DiagnosticList<'_>,
) -> Vec<T> {
    let parsed = texts.filter_map(|(index, text)| match parse(text) {
        Ok(value) => Some(value),
        Err(problem) => {
            let problem = format!("{} {problem}; it is skipped", quoted(text));
            diagnostics.note(field(index), problem);
            None
        }
    });
    parsed.collect()
}

pub(super) fn address(text: &str) -> Result<IpAddr, &'static str> {
    parse_ip(text).ok_or("is not a valid address")
}

pub(super) fn network(text: &str) -> Result<IpNet, &'static str> {
    parse_cidr(text).ok_or("is not a valid network")
}

/// Returns the texts that are not blank, with their indexes.
fn given(texts: &[String]) -> impl Iterator<Item = (usize, &String)> {
    let texts = texts.iter().enumerate();
    texts.filter(|(_, text)| !text.trim().is_empty())
}

/// Returns the external IPs of both families.
///
/// Differs from upstream: an address that the API rejects, such as a loopback address, is skipped.
pub(super) fn external_ips(
    spec: &ServiceSpec,
    diagnostics: &mut DiagnosticList<'_>,
) -> Vec<IpAddr> {
    let routable = |text: &str| match address(text)? {
        ip if is_unroutable(ip) => Err(UNROUTABLE_ADDRESS),
        ip => Ok(ip),
    };
    let field = |index| format!("spec.externalIPs[{index}]");
    parse_each(given(&spec.external_ips), routable, field, diagnostics)
}

/// Returns the load balancer addresses that packets have as destination. With `ipMode: Proxy` the
/// load balancer sends to NodePorts. KEP: kep.k8s.io/1860
pub(super) fn load_balancer_ips(
    object: &ServiceObject,
    diagnostics: &mut DiagnosticList<'_>,
) -> Vec<IpAddr> {
    let ingress = object.status.load_balancer.ingress.iter().enumerate();
    let texts = ingress
        .filter(|(_, one)| !one.ip.is_empty() && one.ip_mode.as_deref().unwrap_or("VIP") == "VIP")
        .map(|(index, one)| (index, &one.ip));
    let field = |index| format!("status.loadBalancer.ingress[{index}].ip");
    parse_each(texts, address, field, diagnostics)
}

/// Returns the valid source ranges of both families, and whether one is not valid.
pub(super) fn source_ranges(
    spec: &ServiceSpec,
    diagnostics: &mut DiagnosticList<'_>,
) -> (Vec<IpNet>, bool) {
    let texts = || given(&spec.load_balancer_source_ranges);
    let field = |index| format!("spec.loadBalancerSourceRanges[{index}]");
    let ranges = parse_each(texts(), |text| network(text.trim()), field, diagnostics);
    let has_invalid = ranges.len() < texts().count();
    (ranges, has_invalid)
}

/// Drops the load balancer addresses of each family without a valid source range, for a Service
/// with invalid ones: an invalid range must not admit all clients.
///
/// Differs from upstream: kube-proxy then admits all clients.
pub(super) fn drop_unguarded(
    ips: &mut Vec<IpAddr>,
    ranges: &[IpNet],
    diagnostics: &mut DiagnosticList<'_>,
) {
    let is_guarded = |ip: &IpAddr| {
        let mut families = ranges.iter().map(|range| IpFamily::of_cidr(*range));
        families.any(|family| family == IpFamily::of(*ip))
    };
    let before = ips.len();
    ips.retain(is_guarded);
    if ips.len() < before {
        let problem = "invalid ranges leave an IP family without a source range; its load balancer \
                       addresses are skipped";
        diagnostics.note("spec.loadBalancerSourceRanges", problem);
    }
}

/// Part of an object that is ignored. Text from an object in it is escaped and shortened (see
/// `quoted`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    pub kind: Kind,
    /// `namespace/name`, or the name of a Node.
    pub object: String,
    /// Path of the field, as in `spec.ports[1].port`.
    pub field: String,
    /// Error and its consequence.
    pub problem: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, object) = (self.kind.as_str(), &self.object);
        write!(f, "{kind} `{object}`: {}: {}", self.field, self.problem)
    }
}

/// Collects the diagnostics of one object; allocates its name only for the first.
pub(super) struct DiagnosticList<'a> {
    kind: Kind,
    metadata: &'a Metadata,
    list: Vec<Diagnostic>,
    /// Number of diagnostics after the list was full.
    more: usize,
}

/// Problem of an address that [`is_unroutable`](crate::net::is_unroutable).
pub(super) const UNROUTABLE_ADDRESS: &str = "is unspecified, loopback or link-local";

/// Maximum diagnostics of one object: its author can write an object with ten thousand invalid
/// ports again and again, and a log line for each would hide all other lines.
const MAX_DIAGNOSTICS: usize = 20;

impl<'a> DiagnosticList<'a> {
    pub(super) fn new(kind: Kind, metadata: &'a Metadata) -> Self {
        Self {
            kind,
            metadata,
            list: Vec::new(),
            more: 0,
        }
    }

    pub(super) fn note(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        if self.list.len() < MAX_DIAGNOSTICS {
            self.push(field.into(), problem.into());
        } else {
            self.more += 1;
        }
    }

    pub(super) fn into_list(mut self) -> Vec<Diagnostic> {
        if self.more > 0 {
            let problem = format!("{} more problems are not listed", self.more);
            self.push("...".to_owned(), problem);
        }
        self.list
    }

    fn push(&mut self, field: String, problem: String) {
        self.list.push(Diagnostic {
            kind: self.kind,
            object: self.object(),
            field,
            problem,
        });
    }

    fn object(&self) -> String {
        let name = shown(&self.metadata.name);
        match self.metadata.namespace.as_str() {
            "" => name,
            namespace => format!("{}/{name}", shown(namespace)),
        }
    }
}

/// Returns `text` between backticks, on one line.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", shown(text))
}

/// Escapes control characters and shortens long text.
fn shown(text: &str) -> String {
    /// Maximum length in characters: longer than any valid address or name of a Service.
    const LONGEST: usize = 80;

    let mut out: String = text
        .chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
#[path = "tests/field.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/diagnostic.rs"]
mod diagnostic_tests;
