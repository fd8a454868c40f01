//! What a source saw of one kind of object.
//!
//! Apart because every source says it and none owns it.

/// One observation, in the order in which things happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed<K> {
    /// A list begins. May come again before [`Observed::Listed`]: the earlier list was broken off
    /// and counts for nothing.
    Listing,
    /// The object exists and is now this; during a list or after it.
    Set(K),
    /// The object is gone; this is its last known state, of which only the name is reliable.
    Gone(K),
    /// The list is complete: what was not set since [`Observed::Listing`] is gone.
    Listed,
}
