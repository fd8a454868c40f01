//! How long it takes to read an object of the API in each of its encodings.
//!
//! The samples are those that the API's own encoder wrote, with fields that are skipped.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use deltaproxy::testing::ingest::{EndpointSliceObject, ServiceObject};
use deltaproxy::testing::watch::api::Decodable;
use prost::Message;
use prost::bytes::Bytes;

/// The envelope of a message.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(bytes = "bytes", tag = 2)]
    raw: Bytes,
}

/// Without the envelope, and without blanks.
macro_rules! sample {
    ($name:literal) => {{
        let json: serde_json::Value =
            serde_json::from_str(include_str!(concat!("../tests/wire/", $name, ".json"))).unwrap();
        let envelope: &[u8] = include_bytes!(concat!("../tests/wire/", $name, ".protobuf"));
        (
            serde_json::to_vec(&json).unwrap(),
            Unknown::decode(envelope.strip_prefix(b"k8s\0").unwrap())
                .unwrap()
                .raw,
        )
    }};
}

fn one<T: Decodable>(criterion: &mut Criterion, name: &str, (json, protobuf): (Vec<u8>, Bytes)) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    let id = BenchmarkId::new("json", json.len());
    group.bench_function(id, |bencher| {
        bencher.iter(|| serde_json::from_slice::<T>(black_box(&json)));
    });
    let id = BenchmarkId::new("protobuf", protobuf.len());
    group.bench_function(id, |bencher| {
        bencher.iter(|| T::decode(black_box(protobuf.as_ref())));
    });
}

fn decode(criterion: &mut Criterion) {
    one::<ServiceObject>(criterion, "service", sample!("service"));
    one::<EndpointSliceObject>(criterion, "slice", sample!("endpoint-slice"));
}

criterion_group!(benches, decode);
criterion_main!(benches);
