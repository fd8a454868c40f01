//! Ages of what is known of each kind of object: the time since it was last known to be current.
//!
//! Kept separate from the counters of [`WatchMetrics`](super::WatchMetrics) because an age grows by
//! itself: it is worked out at each scrape, and for each answer of the health server.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Registry, Result};

/// Name and HELP.
const STALENESS: (&str, &str) = (
    "deltaproxy_watch_staleness_seconds",
    "Seconds since an event, a bookmark or the end of a list of the kind came",
);

/// When each kind was last known to be current. Clones share their values.
#[derive(Debug, Clone)]
pub struct WatchAges {
    current: Arc<Mutex<BTreeMap<&'static str, Instant>>>,
    desc: Desc,
}

impl WatchAges {
    /// Ages without any kind yet.
    pub fn new() -> Result<Self> {
        let (name, help) = STALENESS;
        let labels = vec!["kind".to_owned()];
        Ok(Self {
            current: Arc::default(),
            desc: Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?,
        })
    }

    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let ages = Self::new()?;
        registry.register(Box::new(ages.clone()))?;
        Ok(ages)
    }

    /// Notes that everything known of the kind is current now. A kind counts from its first call,
    /// which is made before anything is known of it.
    pub fn current(&self, kind: &'static str) {
        self.kinds().insert(kind, now());
    }

    /// The age of each kind, by name.
    pub fn ages(&self) -> Vec<(&'static str, Duration)> {
        let now = now();
        let kinds = self.kinds();
        let age =
            |(kind, at): (&&'static str, &Instant)| (*kind, now.saturating_duration_since(*at));
        kinds.iter().map(age).collect()
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<&'static str, Instant>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for WatchAges {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let metrics: Vec<Metric> = self.ages().into_iter().map(sample).collect();
        if metrics.is_empty() {
            return Vec::new();
        }
        let (name, help) = STALENESS;
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(MetricType::GAUGE);
        family.set_metric(metrics);
        vec![family]
    }
}

fn sample((kind, age): (&'static str, Duration)) -> Metric {
    let mut label = LabelPair::default();
    label.set_name("kind".to_owned());
    label.set_value(kind.to_owned());
    let mut gauge = Gauge::default();
    gauge.set_value(age.as_secs_f64());
    let mut metric = Metric::from_label(vec![label]);
    metric.set_gauge(gauge);
    metric
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where an observation meets the clock"
)]
fn now() -> Instant {
    Instant::now()
}
