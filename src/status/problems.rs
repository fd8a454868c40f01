//! Finds in the state of a node what an operator should know, the worst first.

use std::time::Duration;

use jiff::Timestamp;

use super::document::{ConntrackStatus, FamilyStatus, Problem, StatusDocument};

/// Time after which a change that is not in the rules is a problem. A sync of a large cluster takes
/// seconds on legacy; kube-proxy's own pace is a second more.
const LATE: Duration = Duration::from_secs(30);

/// Time without an event or a bookmark after which a watch is stale: an API server sends a bookmark
/// each minute, so two are missing.
const STALE: Duration = Duration::from_secs(150);

/// Percentage of the connection tracking table from which on it is nearly full. New connections
/// are dropped when it is.
const NEARLY_FULL: u64 = 90;

impl StatusDocument {
    pub(crate) fn find_problems(&mut self) {
        let mut problems = Vec::new();
        for family in &self.families {
            family.add_problems(self.observed_at, &mut problems);
            if !self.is_shadow {
                problems.extend(family.first_sync_missing());
            }
        }
        self.add_problems(&mut problems);
        // Stable: those of a family stay together.
        problems.sort_by_key(|problem| !problem.is_failure);
        self.problems = problems;
    }

    fn add_problems(&self, problems: &mut Vec<Problem>) {
        if self.families.iter().any(|family| family.is_node_missing) {
            problems.push(Problem::failure(
                format!("no Node object has the name {}", self.node),
                "no endpoint counts as one on this node, so traffic policy Local drops all packets: \
                 set --hostname-override to the name in `kubectl get nodes`",
            ));
        }
        for watch in &self.watches {
            if watch.age_seconds >= STALE.as_secs_f64() {
                problems.push(Problem::failure(
                    format!("no event of {} for {:.0} s", watch.kind, watch.age_seconds),
                    "check the connection to the API server: changes of Services do not arrive",
                ));
            }
        }
        let conntrack = self.conntrack.iter();
        problems.extend(conntrack.filter_map(ConntrackStatus::problem));
        if self.configuration_invalid {
            problems.push(Problem::finding(
                "the configuration in the file cannot be used".to_owned(),
                "`deltaproxy run --config FILE --check-config` says why",
            ));
        } else if self.configuration_changed {
            problems.push(Problem::finding(
                "the configuration in the file is not the one in use".to_owned(),
                "restart the Pod to use it",
            ));
        }
        if !self.unknown_settings.is_empty() {
            problems.push(Problem::finding(
                format!("unknown settings: {}", self.unknown_settings.join(", ")),
                "they have no effect in this version",
            ));
        }
    }

    /// Reports whether the node does its work and nothing is known to be wrong.
    pub(crate) fn is_well(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns the state without names and addresses of Services.
    pub(crate) fn without_names(mut self) -> Self {
        for family in &mut self.families {
            family.quarantined.iter_mut().for_each(|one| {
                one.service = String::new();
                one.error = String::new();
            });
            family.conflicts.clear();
            family
                .drift
                .iter_mut()
                .for_each(|drift| drift.names = String::new());
            if let Some(failure) = &mut family.last_failure {
                failure.error = String::new();
            }
        }
        self.find_problems();
        self
    }
}

impl ConntrackStatus {
    /// Returns the problem that the table is nearly full, if it is. Without a maximum it never is.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let Self { entries, max } = self;
        let is_nearly_full = *max > 0 && entries * 100 >= max * NEARLY_FULL;
        is_nearly_full.then(|| {
            Problem::failure(
                format!("connection tracking is nearly full: {entries} of {max} entries"),
                "raise net.netfilter.nf_conntrack_max: new connections are dropped when it is full",
            )
        })
    }
}

impl FamilyStatus {
    /// Returns the problem that no sync was applied since the start of the process, if none was,
    /// and none has failed.
    fn first_sync_missing(&self) -> Option<Problem> {
        let is_missing = !self.is_disabled && self.generation == 0 && self.failed_syncs == 0;
        is_missing.then(|| {
            Problem::failure(
                format!("{}: no sync was applied yet", self.family),
                "the rules are those from before the start, if there are any: the first sync waits \
                 for the iptables binaries, Services and EndpointSlices; see the log if this lasts",
            )
        })
    }

    fn add_problems(&self, now: Timestamp, problems: &mut Vec<Problem>) {
        if self.is_disabled {
            return;
        }
        self.add_failures(now, problems);
        self.add_findings_of_services(problems);
        self.add_findings_of_kernel(problems);
    }

    fn add_failures(&self, now: Timestamp, problems: &mut Vec<Problem>) {
        let family = &self.family;
        if self.failed_syncs > 0 {
            let failure = self.last_failure.as_ref();
            let error = failure.map_or("", |failure| failure.error.as_str());
            problems.push(Problem::failure(
                format!(
                    "{family}: {} syncs in a row failed: {error}",
                    self.failed_syncs
                ),
                "changes of Services have no effect; see the log for the rejected line",
            ));
        } else if let Some(since) = self.waiting_since
            && let Ok(waiting) = Duration::try_from(now.duration_since(since))
            && waiting >= LATE
        {
            problems.push(Problem::failure(
                format!("{family}: changes wait for {} s", waiting.as_secs()),
                "a restore takes long: look for a program that holds the xtables lock",
            ));
        }
    }

    fn add_findings_of_kernel(&self, problems: &mut Vec<Problem>) {
        let family = &self.family;
        if !self.other_backend.is_empty() {
            let other = &self.other_backend;
            problems.push(Problem::finding(
                format!("{family}: backend {other} has rules of a proxy as well"),
                &format!(
                    "packets traverse both; if no proxy uses it anymore, `deltaproxy cleanup \
                     --iptables-backend={other}` on the node removes them"
                ),
            ));
        }
        if !self.unreadable_tables.is_empty() {
            problems.push(Problem::finding(
                format!(
                    "{family}: cannot read {}",
                    self.unreadable_tables.join(", ")
                ),
                "another program has rules there that iptables cannot print",
            ));
        }
        if let Some(verification) = &self.verification
            && !verification.is_clean
        {
            problems.push(Problem::finding(
                format!("{family}: the last verification found changed rules"),
                "they are repaired by now, or about to be; see which program changed them",
            ));
        }
    }

    fn add_findings_of_services(&self, problems: &mut Vec<Problem>) {
        let family = &self.family;
        if !self.quarantined.is_empty() {
            let names: Vec<&str> = self.quarantined.iter().map(|one| &*one.service).collect();
            problems.push(Problem::finding(
                format!(
                    "{family}: {} in quarantine: {}",
                    names.len(),
                    names.join(", ")
                ),
                "their rules make restores fail; change or delete them",
            ));
        }
        for limit in &self.over_limits {
            problems.push(Problem::finding(
                format!(
                    "{family}: {} Services over the limit {}",
                    limit.services, limit.limit
                ),
                "they have only some of their rules, or none",
            ));
        }
        if let Some(undetected) = &self.undetected_pods {
            problems.push(Problem::finding(
                format!(
                    "{family}: endpoints on this node are outside of the network of Pods, {} \
                     (service ports: {})",
                    undetected.network, undetected.service_ports
                ),
                "their packets to Services are masqueraded, as if they were from outside of the \
                 cluster: compare `kubectl get pods -A -o wide` with --cluster-cidr",
            ));
        }
        if self.conflict_count > 0 {
            problems.push(Problem::finding(
                format!(
                    "{family}: {} claims of an address that another Service has",
                    self.conflict_count
                ),
                "`deltaproxy services --problems` lists them",
            ));
        }
    }
}

impl Problem {
    fn failure(summary: String, hint: &str) -> Self {
        Self {
            summary,
            hint: hint.to_owned(),
            is_failure: true,
        }
    }

    fn finding(summary: String, hint: &str) -> Self {
        Self {
            is_failure: false,
            ..Self::failure(summary, hint)
        }
    }
}

#[cfg(test)]
#[path = "tests/problems.rs"]
mod tests;
