//! What the benchmarks share: the load, the programs that are compared, and their figures.

#![allow(dead_code, reason = "each benchmark uses a part")]

pub mod cgroup;
pub mod duration;
pub mod latency;
pub mod load;
pub mod machine;
pub mod output;
pub mod plot;
pub mod scrape;
pub mod store;
pub mod subject;
pub mod usage;
