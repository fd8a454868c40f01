//! Tests of `field`.

use super::*;

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
