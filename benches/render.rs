//! How long it takes to write payloads, full and partial, as the cluster grows.
//!
//! Full payloads grow with it; partial ones must not.

#[path = "../tests/support/cluster.rs"]
mod cluster;

use std::hint::black_box;

use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{
    AppliedState, FullPayload, LARGE_CLUSTER_ENDPOINTS, LiveChains, Options, PartialRestore,
    partial_payload,
};
use deltaproxy::testing::rules::Payload;
use deltaproxy::testing::tracker::Tracker;
use divan::Bencher;
use divan::counter::BytesCount;

use cluster::{World, upstream_options};

const SERVICES: [usize; 4] = [100, 1_000, 10_000, 50_000];
const ENDPOINTS: usize = 5;

fn options() -> Options {
    Options {
        large_cluster_endpoints: LARGE_CLUSTER_ENDPOINTS,
        ..upstream_options(IpFamily::V4)
    }
}

/// Writes a full payload piece by piece, as it is given to `iptables-restore`.
fn write_full(tracker: &Tracker, options: &Options) -> (AppliedState, u64) {
    let live = LiveChains::default();
    let mut payload = FullPayload::new(tracker, options, &live);
    let mut buf = Vec::new();
    while payload.write_next(&mut buf) {
        black_box(&buf);
        buf.clear();
    }
    let (applied, stats) = payload.finish();
    (applied, stats.bytes)
}

#[divan::bench(args = SERVICES, sample_count = 10)]
fn full(bencher: Bencher<'_, '_>, services: usize) {
    let options = options();
    let tracker = World::plain(IpFamily::V4, services, ENDPOINTS).tracker();
    let (_, bytes) = write_full(&tracker, &options);
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| write_full(&tracker, &options));
}

/// One endpoint comes and goes.
#[divan::bench(args = SERVICES, min_time = 1)]
fn one_endpoint(bencher: Bencher<'_, '_>, services: usize) {
    let options = options();
    let world = World::plain(IpFamily::V4, services, ENDPOINTS);
    let mut tracker = world.tracker();
    let (mut applied, _) = write_full(&tracker, &options);
    tracker.mark_applied();
    let mut turns = world.turns(services / 2);
    bencher.bench_local(|| {
        if let Some(change) = turns.next() {
            tracker.apply(change);
        }
        let names: Vec<_> = tracker.dirty().collect();
        let shape = PartialRestore::ChangedChains;
        let payload = partial_payload(&mut applied, &tracker, names.into_iter(), &options, shape);
        applied.written(payload.rendered);
        tracker.mark_applied();
        payload.text.len()
    });
}

fn main() {
    divan::main();
}
