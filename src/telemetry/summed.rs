//! One number of both families together, under a name without labels.
//!
//! Apart because each family knows its own share only, and tells it whenever it likes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use prometheus::IntGauge;

use crate::net::{IpFamily, PerFamily};

/// A gauge, and what each family has put into it. Clones share both.
#[derive(Debug, Clone)]
pub(super) struct Summed {
    sum: IntGauge,
    shares: Arc<PerFamily<AtomicI64>>,
}

impl Summed {
    /// Nothing so far.
    pub(super) fn new(sum: IntGauge) -> Self {
        let shares = PerFamily::from_fn(|_| AtomicI64::new(0));
        Self {
            sum,
            shares: Arc::new(shares),
        }
    }

    /// The family's share is so much now. Whatever the other one does meanwhile, the sum is right
    /// once both are done.
    pub(super) fn set(&self, family: IpFamily, share: i64) {
        let before = self.shares.get(family).swap(share, Ordering::Relaxed);
        self.sum.add(share - before);
    }
}
