//! Tables of flags and what they amount to.
