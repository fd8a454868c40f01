//! All tests of the whole program, in one binary: linking one for each took longer than most run.
//! `cargo test --test all conformance` runs those of one module.

#![allow(
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests fail loudly, run programs, read clocks and print figures"
)]

#[path = "growth/callgrind.rs"]
mod callgrind;
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with benches, which do more with it")]
#[path = "../benches/shared/load.rs"]
mod load;
#[path = "support/scenario.rs"]
mod scenario;
#[path = "support/source.rs"]
mod source;
#[path = "../benches/shared/store.rs"]
mod store;
mod support;

mod api_server;
mod backend;
mod browser;
mod bundle;
mod bursts;
mod bytes;
mod charts;
mod check;
mod cleanup;
mod cli;
mod config_file;
mod conformance;
mod connecting;
mod conntrack;
mod cost;
mod counters;
mod damage;
mod dependencies;
mod diff;
mod diff_dumps;
mod diff_incomplete;
mod diff_live;
mod diff_manifests;
mod diff_properties;
mod drift;
mod drop_in;
mod dumps;
mod end_to_end;
mod explain;
mod failures;
mod faults;
mod flags;
mod floods;
mod frontends;
mod golden;
mod guides;
mod habits;
mod hanging;
mod health_checks;
mod history;
mod hostile;
mod image;
mod kernel;
mod kubeconfigs;
mod leftovers;
mod locks;
mod log_formats;
mod manifests;
mod manual;
mod metrics;
mod monitoring;
mod neighbors;
mod newest_release;
mod next_minor;
mod no_answer;
mod node_addresses;
mod nodes;
mod odd_input;
mod old_releases;
mod other_backend;
mod packets;
mod pages;
mod plain_words;
mod properties;
mod proxies;
mod quarantine;
mod quickstart;
mod readme;
mod recoveries;
mod release;
mod render;
mod scenarios;
mod schemas;
mod services;
mod services_live;
mod setup;
mod shadow;
mod shadow_swap;
mod static_binary;
mod status;
mod status_pages;
mod support_matrix;
mod survival;
mod swap;
mod tidy;
mod tidy_files;
mod tidy_names;
mod traversed;
mod trees;
mod unprintable;
mod upstream;
mod users;
mod without_tools;
