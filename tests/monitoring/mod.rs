//! The monitoring pack, `deploy/monitoring`: its files agree with each other and with the docs, its
//! alerts pass their tests, and a real Prometheus finds data for every panel.

mod files;
mod scraped;
