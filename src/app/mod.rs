//! Composition root of `run`: builds the parts of the daemon, starts them, and shuts them down in
//! order. No other module knows all parts.

mod config_file;
mod connections;
mod conntrack_sweeper;
mod daemon;
mod families;
mod servers;
mod setup;
mod sources;
mod startup_checks;

pub(crate) use daemon::run;
pub(crate) use setup::init;
pub(crate) use sources::connect_error;
