//! Chance, to keep requests of many nodes apart.
//!
//! Apart because whoever waits for the server rolls the same dice.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// From 0 to 1, different each time. The standard library's only dice are its hash keys.
pub fn roll() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(bits >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}
