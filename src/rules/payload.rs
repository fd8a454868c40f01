//! What is given to `iptables-restore`, piece by piece.
//!
//! Apart because a full payload can be a hundred megabytes at 50,000 services: whoever sends it
//! pulls one piece at a time and never holds all of it.

/// Text for `iptables-restore --noflush`, in order.
///
/// A payload is a function of what it was made from: made again, it gives the same bytes. So a
/// refused line can be shown with its neighbours without having kept the text.
pub trait Payload {
    /// Appends the next piece, whole lines of any number, to `buf`. False: there was none left.
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool;
}

/// A payload that is already text, owned or borrowed.
#[derive(Debug, Clone, Default)]
pub struct Text<T = Vec<u8>>(Option<T>);

impl<T: AsRef<[u8]>> Text<T> {
    /// The whole payload as one piece.
    pub const fn new(text: T) -> Self {
        Self(Some(text))
    }
}

impl<T: AsRef<[u8]>> Payload for Text<T> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        let Some(text) = self.0.take() else {
            return false;
        };
        buf.extend_from_slice(text.as_ref());
        true
    }
}
