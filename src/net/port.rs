//! Port numbers.
//!
//! Apart so that "no port" is `None` everywhere, never zero.

use std::num::NonZeroU16;

/// A transport port, 1 to 65535.
pub type Port = NonZeroU16;
