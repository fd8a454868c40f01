//! Trees of many rules.

mod insertions;
mod scene;
mod shape;
mod size;
