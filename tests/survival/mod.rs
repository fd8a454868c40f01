//! Faults that the daemon survives, on a real kernel and both backends. After each, the rules are
//! those of a fresh sync, a change made meanwhile is in them, and no process and no file
//! descriptor is left over. The time to repair is printed.

mod children;
mod kill;
mod process;
pub(crate) mod scene;
