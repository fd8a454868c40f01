//! Metrics that are read at each scrape: values that the program does not count itself, and ages.

use std::collections::HashMap;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Registry, Result};

/// Metric with the values that a function returns at each scrape, by the value of its label. A
/// metric without a label has the value of an empty one.
pub(in crate::telemetry) struct ScrapedMetric<R> {
    desc: Desc,
    kind: MetricType,
    read: R,
}

impl<R> ScrapedMetric<R>
where
    R: Fn() -> Vec<(&'static str, f64)> + Send + Sync + 'static,
{
    pub(super) fn register(
        registry: &Registry,
        (name, help): (&str, &str),
        label: Option<&str>,
        kind: MetricType,
        read: R,
    ) -> Result<()> {
        let labels = label.into_iter().map(str::to_owned).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?;
        registry.register(Box::new(Self { desc, kind, read }))
    }
}

/// Registers a metric without labels. Without a value it has no sample.
pub(in crate::telemetry) fn register(
    registry: &Registry,
    name: (&str, &str),
    kind: MetricType,
    read: impl Fn() -> Option<f64> + Send + Sync + 'static,
) -> Result<()> {
    let read = move || read().map(|value| ("", value)).into_iter().collect();
    ScrapedMetric::register(registry, name, None, kind, read)
}

impl<R> Collector for ScrapedMetric<R>
where
    R: Fn() -> Vec<(&'static str, f64)> + Send + Sync,
{
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let samples = (self.read)().into_iter().map(|(label, value)| {
            let labels = self.desc.variable_labels.iter().map(|name| {
                let mut pair = LabelPair::default();
                pair.set_name(name.clone());
                pair.set_value(label.to_owned());
                pair
            });
            let mut metric = Metric::from_label(labels.collect());
            if self.kind == MetricType::COUNTER {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            } else {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            metric
        });
        let samples: Vec<Metric> = samples.collect();
        if samples.is_empty() {
            return Vec::new();
        }
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(self.kind);
        family.set_metric(samples);
        vec![family]
    }
}
