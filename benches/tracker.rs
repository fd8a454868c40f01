//! How long it takes to hear of a cluster, and of a change of it.

#[path = "../tests/support/cluster.rs"]
mod cluster;

use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use deltaproxy::testing::net::IpFamily;

use cluster::{World, tracker};

const SERVICES: [usize; 3] = [100, 1_000, 10_000];
const ENDPOINTS: usize = 5;

fn initial_list(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("list");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(2));
    for services in SERVICES {
        let changes = World::plain(IpFamily::V4, services, ENDPOINTS).listing();
        group.bench_function(BenchmarkId::from_parameter(services), |bencher| {
            bencher.iter_batched(|| changes.clone(), tracker, BatchSize::LargeInput);
        });
    }
}

fn one_slice(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("change");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(2));
    for services in SERVICES {
        let world = World::plain(IpFamily::V4, services, ENDPOINTS);
        let mut tracker = world.tracker();
        tracker.mark_applied();
        let mut turns = world.turns(services / 2);
        group.bench_function(BenchmarkId::from_parameter(services), |bencher| {
            bencher.iter(|| {
                if let Some(change) = turns.next() {
                    tracker.apply(change);
                }
                tracker.pending()
            });
        });
    }
}

criterion_group!(benches, initial_list, one_slice);
criterion_main!(benches);
