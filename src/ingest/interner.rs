//! One copy of each text that many objects repeat.
//!
//! Apart because it is the only thing that outlives an object here: 50,000 slices use a handful of
//! port and zone names between them.

use std::collections::HashSet;
use std::sync::Arc;

/// Hands out shared texts.
///
/// # Invariants
///
/// Texts that nobody else holds any more are dropped before the set doubles, so it stays within
/// twice of what is in use.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    /// The size at which unused texts are looked for.
    sweep_at: usize,
}

impl Interner {
    /// The shared copy of `text`.
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        if self.texts.len() >= self.sweep_at.max(SMALLEST_SWEEP) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.texts.len().saturating_mul(2);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

/// In texts. Below it a sweep would cost more than the few kilobytes it frees.
const SMALLEST_SWEEP: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_copy() {
        let mut interner = Interner::default();
        let (first, second) = (interner.intern("http"), interner.intern("http"));
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn texts_out_of_use_do_not_pile_up() {
        let mut interner = Interner::default();
        let kept = interner.intern("kept");
        for number in 0..10_000 {
            interner.intern(&number.to_string());
        }
        assert!(interner.texts.len() <= SMALLEST_SWEEP + 1);
        assert!(Arc::ptr_eq(&kept, &interner.intern("kept")));
    }
}
