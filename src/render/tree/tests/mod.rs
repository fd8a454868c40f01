//! Trees of many rules.

mod scene;
mod shape;
mod size;
