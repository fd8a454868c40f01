//! Services whose endpoints have all moved: every one of their chains is written or deleted.

use deltaproxy::testing::model::{Change, Endpoint};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::Backend;

use crate::arrange::{AS_RENDERED, Arrangement, Headers, List, Order};
use crate::cluster::{Use, World, ip};
use crate::figures::Notes;
use crate::kernel::Kernel;
use crate::product::{ENDPOINTS, Product, spread};

const COUNTS: [usize; 7] = [1, 10, 100, 200, 500, 1_000, 2_000];

/// Fewer Services than this are never worth `-S`.
const FEWEST_LISTED: usize = 100;

const WAYS: [Arrangement; 3] = {
    use Headers::{Beside, First};
    use List::{First as Listed, Never};
    use Order::{Descending, Service};
    [
        Arrangement::new("beside", Never, Beside, Service),
        Arrangement::new(
            "headers first, descending",
            Never,
            First(Descending),
            Service,
        ),
        Arrangement::new("-S, beside", Listed, Beside, Service),
    ]
};

pub fn measure(kernel: &Kernel, notes: &mut Notes) {
    let mut product = Product::settled(notes.services, kernel);
    let counts = COUNTS.into_iter().filter(|count| *count <= notes.services);
    let bursts: Vec<(usize, [String; 2])> = counts
        .map(|count| {
            let mut payload = |first| {
                let moved: Vec<Change> = spread(count, notes.services)
                    .map(|n| moved(&product.world, n, first))
                    .collect();
                product.follow(moved)
            };
            (count, [payload(notes.services * ENDPOINTS), payload(0)])
        })
        .collect();
    let ways: Vec<Arrangement> = match kernel.backend {
        Backend::Nft => WAYS.to_vec(),
        Backend::Legacy => WAYS[..2].to_vec(),
    };
    notes.rounds(|notes| {
        for (count, payloads) in &bursts {
            for payload in payloads {
                notes.add(&count.to_string(), AS_RENDERED, kernel.restore(payload));
            }
            let is_thinkable =
                |way: &&Arrangement| way.list == List::Never || *count >= FEWEST_LISTED;
            for way in ways.iter().filter(is_thinkable) {
                for payload in payloads {
                    notes.add(
                        &count.to_string(),
                        way.name,
                        kernel.restore(&way.of(payload)),
                    );
                }
            }
        }
    });
}

/// The endpoints of Service number `n`, counted on from `first` instead of from nought.
fn moved(world: &World, n: usize, first: usize) -> Change {
    let (_, name) = World::plain_name(n);
    let mut slice = world.slices[&name].clone();
    slice.endpoints = (0..ENDPOINTS)
        .map(|e| Endpoint::ready(ip(IpFamily::V4, Use::Pod, first + n * ENDPOINTS + e)))
        .collect();
    Change::Slice(name, Some(Box::new(slice)), None)
}
