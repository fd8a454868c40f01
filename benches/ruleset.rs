//! How long it takes to read what `iptables-save` prints.

#[path = "../tests/support/cluster.rs"]
mod cluster;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{FullPayload, LiveChains};
use deltaproxy::testing::rules::{Payload, RuleSet};

use cluster::{World, upstream_options};

const SERVICES: [usize; 3] = [100, 1_000, 10_000];
const ENDPOINTS: usize = 5;

fn payload(services: usize) -> String {
    let tracker = World::plain(IpFamily::V4, services, ENDPOINTS).tracker();
    let options = upstream_options(IpFamily::V4);
    let live = LiveChains::default();
    let mut payload = FullPayload::new(&tracker, &options, &live);
    let mut bytes = Vec::new();
    while payload.write_next(&mut bytes) {}
    String::from_utf8_lossy(&bytes).into_owned()
}

fn held(payload: &str) -> RuleSet {
    let mut rules = RuleSet::default();
    // A refused payload would be measured as an empty rule set; the tests see to that.
    let _ = rules.apply(payload);
    rules
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(3));
    for services in SERVICES {
        let save = held(&payload(services)).to_save_text();
        group.throughput(Throughput::Bytes(save.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(services), |bencher| {
            bencher.iter(|| RuleSet::parse(&save));
        });
    }
}

criterion_group!(benches, parse);
criterion_main!(benches);
