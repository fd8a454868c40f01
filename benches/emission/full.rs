//! Full payloads: the same rules in several arrangements, onto nothing and onto themselves.

use deltaproxy::testing::rules::Backend;

use crate::arrange::{AS_RENDERED, Arrangement, Headers, List, Order};
use crate::figures::Notes;
use crate::kernel::Kernel;
use crate::product::{Found, Product};

/// Above this many Services arrangements without `-S` take minutes on nft.
const LARGEST_UNLISTED: usize = 1_000;

const NFT: [Arrangement; 8] = {
    use Headers::{Beside, First};
    use List::{First as Listed, Never};
    use Order::{Ascending, Descending, Service};
    [
        Arrangement::new("-S, beside", Listed, Beside, Service),
        Arrangement::new("-S, beside, Services ascending", Listed, Beside, Ascending),
        Arrangement::new(
            "-S, beside, Services descending",
            Listed,
            Beside,
            Descending,
        ),
        Arrangement::new("-S, headers first", Listed, First(Service), Service),
        Arrangement::new(
            "-S, headers first, descending",
            Listed,
            First(Descending),
            Service,
        ),
        Arrangement::new("beside", Never, Beside, Service),
        Arrangement::new("headers first", Never, First(Service), Service),
        Arrangement::new(
            "headers first, descending",
            Never,
            First(Descending),
            Service,
        ),
    ]
};

const LEGACY: [Arrangement; 7] = {
    use Headers::{Beside, First};
    use List::Never;
    use Order::{Ascending, Descending, Service};
    [
        Arrangement::new("beside", Never, Beside, Service),
        Arrangement::new("beside, Services ascending", Never, Beside, Ascending),
        Arrangement::new("beside, Services descending", Never, Beside, Descending),
        Arrangement::new("headers first", Never, First(Service), Service),
        Arrangement::new("headers first, ascending", Never, First(Ascending), Service),
        Arrangement::new(
            "headers first, descending",
            Never,
            First(Descending),
            Service,
        ),
        Arrangement::new(
            "headers and Services descending",
            Never,
            First(Descending),
            Descending,
        ),
    ]
};

pub fn measure(kernel: &Kernel, notes: &mut Notes) {
    let arrangements: Vec<Arrangement> = match kernel.backend {
        Backend::Legacy => LEGACY.to_vec(),
        Backend::Nft => {
            let is_bearable =
                |way: &Arrangement| way.list == List::First || notes.services <= LARGEST_UNLISTED;
            NFT.into_iter().filter(is_bearable).collect()
        }
    };
    let mut product = Product::new(notes.services, kernel.backend);
    let empty = product.full(Found::Nothing);
    let there = product.full(Found::Everything);
    notes.rounds(|notes| {
        kernel.clear();
        notes.add("onto nothing", AS_RENDERED, kernel.restore(&empty));
        notes.add("onto itself", AS_RENDERED, kernel.restore(&there));
        for way in &arrangements {
            kernel.clear();
            notes.add("onto nothing", way.name, kernel.restore(&way.of(&empty)));
            notes.add("onto itself", way.name, kernel.restore(&way.of(&there)));
        }
    });
}
