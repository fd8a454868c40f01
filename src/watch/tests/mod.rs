//! Sources and the outlet, from objects and files to changes.

mod manifests;
mod outlet;
