//! A removal and a change in one transaction, or each in its own: nft does not validate what only
//! goes.

use crate::figures::Notes;
use crate::kernel::Kernel;
use crate::product::{Product, spread};

/// How many Services go, and as many others lose an endpoint or get it back.
const COUNTS: [usize; 3] = [1, 10, 100];

pub fn measure(kernel: &Kernel, notes: &mut Notes) {
    let mut product = Product::settled(notes.services, kernel);
    let half = notes.services / 2;
    for count in COUNTS.into_iter().filter(|count| *count <= half) {
        let gone: Vec<usize> = spread(count, half).collect();
        let changed: Vec<usize> = gone.iter().map(|n| n + half).collect();
        let mut turns: Vec<_> = changed.iter().map(|n| product.world.turns(*n)).collect();
        let removal = product.follow(gone.iter().map(|n| Product::without(*n)));
        let change = product.follow(turns.iter_mut().filter_map(Iterator::next));
        let come: Vec<_> = gone.iter().map(|n| product.with(*n)).collect();
        let back = product.follow(come);
        let more = product.follow(turns.iter_mut().filter_map(Iterator::next));
        let both = product.follow(
            gone.iter()
                .map(|n| Product::without(*n))
                .chain(turns.iter_mut().filter_map(Iterator::next)),
        );
        let come: Vec<_> = gone.iter().map(|n| product.with(*n)).collect();
        product.follow(come);
        product.follow(turns.iter_mut().filter_map(Iterator::next));
        let task = format!("-{count}, {count} changed");
        notes.rounds(|notes| {
            let removed = kernel.restore(&removal);
            notes.add(&task, "the removal alone", removed);
            let changed = kernel.restore(&change);
            notes.add(&task, "the change alone", changed);
            notes.add(&task, "one after the other", removed.and(changed));
            // Back to the beginning, from either end.
            kernel.restore(&back);
            kernel.restore(&more);
            notes.add(&task, "both in one", kernel.restore(&both));
            kernel.restore(&back);
            kernel.restore(&more);
        });
    }
}
