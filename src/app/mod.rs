//! The composition root of `run`: builds the parts, starts them, ends them in order.
//!
//! Apart so that every part can be read without the others; only this module knows them all.

mod checks;
mod config_file;
mod daemon;
mod elsewhere;
mod ending;
mod families;
mod family_thread;
mod first_look;
mod fitting;
mod localnet;
mod programs;
mod servers;
mod setup;
mod shared;
mod sources;

pub use config_file::Judge;
pub use daemon::run;
pub use setup::init;
