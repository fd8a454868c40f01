//! Metric of the connections to each service port, from counters that the kernel has for each rule.
//!
//! A counter of the kernel begins at 0 again when its rule is written, and goes on when this
//! process restarts. The exported one is the sum of the increases between readings, the first of
//! them from 0: it never decreases, and goes on after a restart of the process as well.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use prometheus::{IntCounterVec, IntGaugeVec, Registry, Result};

use super::factory::{FAMILY, MetricFactory, OWN, set};
use crate::net::{IpFamily, Locked, PerFamily};

/// Maximum service ports that have a series: some nodes have rules of tens of thousands.
const MAX_PORTS: usize = 1000;

/// Metrics of connections; only with `--service-metrics`. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionMetrics {
    connections: IntCounterVec,
    omitted: IntGaugeVec,
    totals: Arc<Locked<ConnectionTotals>>,
}

impl ConnectionMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
        Ok(Self {
            connections: own.counters(
                "service_connections_total",
                "Number of connections that matched rules of a service port, of at most 1000 ports",
                &["namespace", "service", "port"],
            )?,
            omitted: own.gauges(
                "service_connections_omitted_ports",
                "Number of service ports beyond 1000, whose connections are not exported",
                FAMILY,
            )?,
            totals: Arc::default(),
        })
    }

    /// Adds what the counters of a family have increased by since its last reading.
    pub(crate) fn read(&self, family: IpFamily, reading: &ConnectionReading) {
        let mut totals = self.totals.lock();
        let update = totals.update(family, reading, MAX_PORTS);
        for port in &update.removed {
            // Absent if the port had no reading since it was added.
            let _ = self.connections.remove_label_values(&labels(port));
        }
        for (port, more) in update.increases {
            self.connections
                .with_label_values(&labels(port))
                .inc_by(more);
        }
        set(&self.omitted, &[family.as_str()], update.omitted);
    }
}

/// Returns namespace, Service and port of `NAMESPACE/SERVICE[:PORT]`.
fn labels(port: &str) -> [&str; 3] {
    let (namespace, name) = port.split_once('/').unwrap_or(("", port));
    let (service, port) = name.split_once(':').unwrap_or((name, ""));
    [namespace, service, port]
}

/// Counters of all rules of frontends of a family, by service port.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionReading(BTreeMap<Box<str>, Vec<RuleCounter>>);

#[derive(Debug, Clone, Copy)]
struct RuleCounter {
    rule: u64,
    connections: u64,
}

impl ConnectionReading {
    /// Adds a rule, given its service port and a number that identifies it.
    pub(crate) fn add(&mut self, port: &str, rule: u64, connections: u64) {
        let counter = RuleCounter { rule, connections };
        match self.0.get_mut(port) {
            Some(counters) => counters.push(counter),
            None => drop(self.0.insert(port.into(), vec![counter])),
        }
    }
}

/// Last reading of each rule, and the service ports that have a series.
#[derive(Debug, Default)]
struct ConnectionTotals {
    /// Families that had rules of the service port at their last reading. A port without rules
    /// keeps its series, because it may only lack endpoints, until another one needs the place.
    ports: BTreeMap<Box<str>, PerFamily<bool>>,
    last: PerFamily<HashMap<u64, u64>>,
}

/// Effect of a reading on the series.
#[derive(Debug, Default, PartialEq, Eq)]
struct Update<'r> {
    removed: Vec<Box<str>>,
    /// Increase of each service port that has rules.
    increases: Vec<(&'r str, u64)>,
    omitted: usize,
}

impl ConnectionTotals {
    fn update<'r>(
        &mut self,
        family: IpFamily,
        reading: &'r ConnectionReading,
        max_ports: usize,
    ) -> Update<'r> {
        let mut update = Update::default();
        for (port, has_rules) in &mut self.ports {
            *has_rules.get_mut(family) = reading.0.contains_key(port);
        }
        let unused = self.ports.iter();
        let unused = unused.filter(|(_, has_rules)| !has_rules.v4 && !has_rules.v6);
        let unused: Vec<Box<str>> = unused.map(|(port, _)| port.clone()).collect();
        let mut unused = unused.into_iter();
        let mut last = HashMap::new();
        for (port, counters) in &reading.0 {
            if !self.make_place(port, &mut unused, max_ports, &mut update) {
                update.omitted += 1;
                continue;
            }
            let has_rules = self.ports.entry(port.clone()).or_default();
            *has_rules.get_mut(family) = true;
            let before = self.last.get(family);
            // A rule may be there twice, after a restore that did not flush its chain.
            let mut sums = HashMap::new();
            for counter in counters {
                *sums.entry(counter.rule).or_insert(0_u64) += counter.connections;
            }
            let mut more = 0;
            for (rule, connections) in sums {
                let known = before.get(&rule).copied().unwrap_or(0);
                // A smaller number was counted since the rule was written again.
                more += connections.checked_sub(known).unwrap_or(connections);
                last.insert(rule, connections);
            }
            update.increases.push((port, more));
        }
        *self.last.get_mut(family) = last;
        update
    }

    /// Returns false if a service port has no series, and there is no place for one.
    fn make_place(
        &mut self,
        port: &str,
        unused: &mut impl Iterator<Item = Box<str>>,
        max_ports: usize,
        update: &mut Update<'_>,
    ) -> bool {
        if self.ports.contains_key(port) || self.ports.len() < max_ports {
            return true;
        }
        let removed = unused.next();
        if let Some(removed) = &removed {
            self.ports.remove(removed);
        }
        update.removed.extend(removed.clone());
        removed.is_some()
    }
}

#[cfg(test)]
#[path = "tests/connections.rs"]
mod tests;
