//! Frontends that several Services ask for, from the objects or from the proxy that has read them.

use serde_json::Value;

use super::proxy::{self, is_name};
use crate::inspect::catalog::{FrontendConflict, FrontendKind, PortName};
use crate::model::LostFrontend;
use crate::net::{IpFamily, PerFamily, Protocol};
use crate::tracker::Tracker;

/// The conflicts of one family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cli) struct Conflicts {
    /// Number of frontends that several Services ask for.
    pub(in crate::cli) count: usize,
    /// Claims that were lost, sorted by frontend. A proxy names the first ten.
    pub(in crate::cli) lost: Vec<FrontendConflict>,
}

/// Conflicts between the Services of a tracker.
pub(super) fn of_tracker(tracker: &Tracker) -> Conflicts {
    let lost = tracker.lost_frontends().filter_map(|lost| of_lost(&lost));
    Conflicts {
        count: tracker.frontend_conflicts(),
        lost: lost.collect(),
    }
}

/// Conflicts that the proxy on this node reports.
pub(super) fn of_proxy() -> PerFamily<Conflicts> {
    of_body(&proxy::livez())
}

fn of_body(body: &str) -> PerFamily<Conflicts> {
    let reports = proxy::of_families(body, "frontendConflicts");
    let of_family = |family: IpFamily| {
        let mut reports = reports.iter();
        let (_, report) = reports.find(|(name, _)| name == family.as_str())?;
        let count = report.get("count").and_then(Value::as_u64)?;
        let lost = report.get("lost").and_then(Value::as_array)?;
        Some(Conflicts {
            count: usize::try_from(count).ok()?,
            lost: lost.iter().filter_map(read).collect(),
        })
    };
    PerFamily::from_fn(|family| of_family(family).unwrap_or_default())
}

fn of_lost(lost: &LostFrontend) -> Option<FrontendConflict> {
    Some(FrontendConflict {
        loser: loser(
            lost.service.as_str(),
            &lost.port,
            lost.frontend.protocol().as_str(),
        ),
        kind: FrontendKind::from_id(lost.kind())?,
        ip: lost.frontend.ip(),
        port: lost.frontend.port().get(),
        owner: lost.owner.as_str().into(),
    })
}

/// Reads one claim of a report.
fn read(lost: &Value) -> Option<FrontendConflict> {
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
        kind: FrontendKind::from_id(text("kind")?)?,
        ip,
        port: lost.get("port")?.as_u64()?.try_into().ok()?,
        owner: name("owner")?.into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A body with one claim, in which a text is replaced.
    fn body(from: &str, to: &str) -> String {
        r#"{"status":{"IPv4":{"healthy":true},"IPv6":{"healthy":true,"frontendConflicts":{
            "count":12,"lost":[{"service":"shop/thief","portName":"http","kind":"ExternalIP",
            "ip":"fd00::1","port":80,"protocol":"tcp","owner":"shop/web"}]}}}}"#
            .replace(from, to)
    }

    #[test]
    fn a_report_of_the_proxy_is_read() {
        let found = of_body(&body("", ""));
        assert_eq!(found.v4, Conflicts::default());
        assert_eq!(found.v6.count, 12);
        let [conflict] = &found.v6.lost[..] else {
            panic!("{found:?}");
        };
        let shown = format!("{conflict} {} {}", conflict.loser, conflict.owner);
        assert_eq!(shown, "[fd00::1]:80/tcp shop/thief:http/tcp shop/web");
        assert_eq!(conflict.kind, FrontendKind::ExternalIp);
        let node_port = of_body(&body("\"fd00::1\"", "null"));
        assert_eq!(node_port.v6.lost[0].to_string(), "*:80/tcp");
    }

    #[test]
    fn other_answers_name_no_conflicts() {
        for (from, to) in [
            ("shop/thief", "\\u001b[2J"),
            ("shop/web", ""),
            ("http", "a b"),
            ("ExternalIP", "Other"),
            ("fd00::1", "fd00"),
            ("\"port\":80", "\"port\":65536"),
            ("tcp", "icmp"),
            ("\"lost\"", "\"found\""),
            ("frontendConflicts", "quarantinedServices"),
            ("{", ""),
        ] {
            assert_eq!(of_body(&body(from, to)).v6.lost, [], "{to}");
        }
    }
}
