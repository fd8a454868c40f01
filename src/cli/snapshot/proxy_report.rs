//! Frontend conflicts and Services in quarantine, from objects or as a daemon reports them on
//! `/status` and `/rules`.
//!
//! Rules do not show everything that a proxy knows. Without a report nothing is known.

use serde::Deserialize;
use serde_json::Value;

use crate::inspect::catalog::{FrontendConflict, FrontendKind, LoserRules, PortName};
use crate::net::{IpFamily, PerFamily};
use crate::status::{ConflictRecord, FamilyStatus};
use crate::tracker::Tracker;

/// Frontend conflicts of one family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cli) struct Conflicts {
    /// Number of frontends that several Services declare.
    pub(in crate::cli) count: usize,
    /// Declarations without effect, sorted by frontend. A daemon reports the first ten.
    pub(in crate::cli) lost: Vec<FrontendConflict>,
}

/// Services of one family that have something in common, by their names with namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cli) struct ServiceNames(pub(in crate::cli) Vec<String>);

impl ServiceNames {
    pub(in crate::cli) fn has(&self, (namespace, service): (&str, &str)) -> bool {
        let mut names = self.0.iter();
        names.any(|name| name.split_once('/') == Some((namespace, service)))
    }
}

/// Returns the conflicts between the Services of a tracker.
pub(super) fn of_tracker(tracker: &Tracker) -> Conflicts {
    let lost = tracker.lost_frontends();
    let lost = lost.filter_map(|lost| conflict(&ConflictRecord::new(&lost)));
    Conflicts {
        count: tracker.frontend_conflicts(),
        lost: lost.collect(),
    }
}

/// Returns the conflicts and the Services in quarantine that a daemon reports of its families.
pub(super) fn of_daemon<'f>(
    families: impl Iterator<Item = &'f FamilyStatus>,
) -> (PerFamily<Conflicts>, PerFamily<ServiceNames>) {
    let (mut conflicts, mut quarantined) = Default::default();
    for status in families {
        let Some(family) = IpFamily::from_api(&status.family) else {
            continue;
        };
        *PerFamily::get_mut(&mut conflicts, family) = Conflicts {
            count: usize::try_from(status.conflict_count).unwrap_or(usize::MAX),
            lost: status.conflicts.iter().filter_map(conflict).collect(),
        };
        let names = status.quarantined.iter().map(|one| one.service.clone());
        *PerFamily::get_mut(&mut quarantined, family) = ServiceNames(names.collect());
    }
    (conflicts, quarantined)
}

/// Returns a conflict; `None` if its kind or address is that of a daemon of another version.
fn conflict(record: &ConflictRecord) -> Option<FrontendConflict> {
    let name = match record.port_name.as_str() {
        "" => record.service.clone(),
        port => format!("{}:{port}", record.service),
    };
    let ip = match record.ip.as_str() {
        "" => Ok(None),
        ip => ip.parse().map(Some),
    };
    Some(FrontendConflict {
        loser: PortName {
            name: name.into(),
            protocol: record.protocol.as_str().into(),
        },
        kind: FrontendKind::deserialize(&Value::from(&*record.kind)).ok()?,
        ip: ip.ok()?,
        port: record.port,
        owner: record.owner.as_str().into(),
        rules: LoserRules::Absent,
    })
}

#[cfg(test)]
#[path = "tests/proxy_report.rs"]
mod tests;
