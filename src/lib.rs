//! A drop-in replacement for kube-proxy's iptables mode that restores only what changed.

pub mod net;

pub mod model;

pub mod rules;

pub mod ingest;

pub mod select;
pub mod tracker;

pub mod render;

pub mod health;
pub mod host;
pub mod telemetry;
pub mod watch;

pub mod sync;

pub mod cli;
pub mod config;

pub mod app;
