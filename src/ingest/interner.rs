//! Shares one copy of each text that many objects repeat: 50,000 slices have a handful of port and
//! zone names.

use std::collections::HashSet;
use std::sync::Arc;

/// Set of shared texts.
///
/// # Invariants
///
/// Unused texts are dropped before the set doubles, so that it holds at most twice the used ones.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    /// Size at which unused texts are dropped.
    sweep_at: usize,
}

impl Interner {
    /// Returns the shared copy of `text`.
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

/// Minimum size for that, in texts: below it the search costs more than the memory it frees.
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
