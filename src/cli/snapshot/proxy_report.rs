//! Frontend conflicts and Services in quarantine, from objects or as the proxy on this node reports
//! them on `/livez`.
//!
//! Rules do not show everything that a proxy knows. Without a report nothing is known.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::inspect::catalog::{FrontendConflict, FrontendKind, LoserRules, PortName};
use crate::model::LostFrontend;
use crate::net::{IpFamily, PerFamily, Protocol};
use crate::tracker::Tracker;

/// Frontend conflicts of one family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cli) struct Conflicts {
    /// Number of frontends that several Services declare.
    pub(in crate::cli) count: usize,
    /// Declarations without effect, sorted by frontend. A proxy reports the first ten.
    pub(in crate::cli) lost: Vec<FrontendConflict>,
}

/// Services of one family that have something in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cli) struct ServiceNames {
    pub(in crate::cli) count: usize,
    /// Names with their namespaces. A proxy reports the first ten.
    pub(in crate::cli) names: Vec<String>,
}

impl ServiceNames {
    /// Reports whether a Service, by namespace and name, is named.
    pub(in crate::cli) fn has(&self, (namespace, service): (&str, &str)) -> bool {
        let mut names = self.names.iter();
        names.any(|name| name.split_once('/') == Some((namespace, service)))
    }
}

fn quarantined_in(body: &str) -> PerFamily<ServiceNames> {
    let reports = of_families(body, "quarantinedServices");
    of_each_family(&reports, |report| {
        let names = report.get("names")?.as_array()?.iter();
        let names = names.filter_map(Value::as_str).filter(|name| is_name(name));
        Some(ServiceNames {
            count: usize::try_from(report.get("count")?.as_u64()?).ok()?,
            names: names.map(str::to_owned).collect(),
        })
    })
}

/// Returns the conflicts between the Services of a tracker.
pub(super) fn of_tracker(tracker: &Tracker) -> Conflicts {
    let lost = tracker.lost_frontends().filter_map(|lost| of_lost(&lost));
    Conflicts {
        count: tracker.frontend_conflicts(),
        lost: lost.collect(),
    }
}

/// Returns the conflicts and the Services in quarantine that the proxy on this node reports.
pub(super) fn of_node() -> (PerFamily<Conflicts>, PerFamily<ServiceNames>) {
    let body = livez();
    (conflicts_in(&body), quarantined_in(&body))
}

fn conflicts_in(body: &str) -> PerFamily<Conflicts> {
    let reports = of_families(body, "frontendConflicts");
    of_each_family(&reports, |report| {
        let count = report.get("count").and_then(Value::as_u64)?;
        let lost = report.get("lost").and_then(Value::as_array)?;
        Some(Conflicts {
            count: usize::try_from(count).ok()?,
            lost: lost.iter().filter_map(parse_lost).collect(),
        })
    })
}

/// Parses the report of each family; the default for one without a usable report.
fn of_each_family<T: Default>(
    reports: &[(String, Value)],
    parse: impl Fn(&Value) -> Option<T>,
) -> PerFamily<T> {
    PerFamily::from_fn(|family: IpFamily| {
        let mut reports = reports.iter();
        let report = reports.find(|(name, _)| name == family.as_str());
        report
            .and_then(|(_, report)| parse(report))
            .unwrap_or_default()
    })
}

fn of_lost(lost: &LostFrontend) -> Option<FrontendConflict> {
    Some(FrontendConflict {
        loser: loser(
            lost.service.as_str(),
            &lost.port,
            lost.frontend.protocol().as_str(),
        ),
        kind: FrontendKind::deserialize(&Value::from(lost.kind())).ok()?,
        ip: lost.frontend.ip(),
        port: lost.frontend.port().get(),
        owner: lost.owner.as_str().into(),
        rules: LoserRules::Absent,
    })
}

/// Parses one lost declaration of a report.
fn parse_lost(lost: &Value) -> Option<FrontendConflict> {
    let text = |key| lost.get(key).and_then(Value::as_str);
    let name = |key| text(key).filter(|name| is_name(name));
    let port = text("portName").filter(|port| port.is_empty() || is_name(port))?;
    let protocol = Protocol::from_iptables(text("protocol")?)?;
    let ip = match text("ip") {
        Some(ip) => Some(ip.parse().ok()?),
        None => None,
    };
    Some(FrontendConflict {
        loser: loser(name("service")?, port, protocol.as_str()),
        kind: FrontendKind::deserialize(lost.get("kind")?).ok()?,
        ip,
        port: lost.get("port")?.as_u64()?.try_into().ok()?,
        owner: name("owner")?.into(),
        rules: LoserRules::Absent,
    })
}

fn loser(service: &str, port: &str, protocol: &str) -> PortName {
    let name = if port.is_empty() {
        service.to_owned()
    } else {
        format!("{service}:{port}")
    };
    PortName {
        name: name.into(),
        protocol: protocol.into(),
    }
}

/// Default address of the proxy's health server, which kubelet and load balancers use as well. A
/// proxy with another `--healthz-bind-address` may not answer there.
const HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10256);

/// Timeout of the request. A proxy on this node answers in a millisecond, even if it is busy.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum bytes of an answer: usually some hundred, with all names that it may contain a few
/// thousand.
const MAX_BYTES: u64 = 64 * 1024;

/// Returns the body of `/livez`; empty without an answer.
fn livez() -> String {
    let answer = request().unwrap_or_default();
    let text = String::from_utf8_lossy(&answer);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    body.to_owned()
}

/// Returns the report of each family under a key of a body of `/livez`, with the family's name.
fn of_families(body: &str, key: &str) -> Vec<(String, Value)> {
    let report: Value = serde_json::from_str(body).unwrap_or_default();
    let families = report.get("status").and_then(Value::as_object);
    let families = families.into_iter().flatten();
    let found = families.filter_map(|(family, report)| {
        let found = report.get(key)?.clone();
        is_name(family).then(|| (family.clone(), found))
    });
    found.collect()
}

/// Reports whether a text can be the name of an object or a part of one. Any process may answer at
/// that port, so everything else is kept off the terminal.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

fn request() -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&HEALTH, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut body = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut body)?;
    Ok(body)
}

#[cfg(test)]
#[path = "tests/proxy_report.rs"]
mod tests;
