//! The image: its contents, and containers of it on a node of a real API server.

mod container;
mod contents;
mod dockerfile;
mod memory;
mod node;
