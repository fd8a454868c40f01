//! Tests of `field`.

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
