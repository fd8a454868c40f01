//! A drop-in replacement for kube-proxy's iptables mode that restores only what changed.
//!
//! A pure core turns Services and endpoints into the text of rules; a thin shell watches, waits
//! and executes.
//!
//! ```text
//!   API server ┐                                                ┌─ metrics, health
//!              ├─ watch ──Change──► tracker ──dirty──► render ──Payload──► host ──► kernel
//!   manifests ─┘                      ▲                  ▲                  │
//!                                     └── sync: pace, decide, once ◄─Outcome┘
//! ```
//!
//! One [`sync::Task`] for each IP family, built by [`app`]; nothing below it knows that there may
//! be two.
//!
//! # Layers
//!
//! A module may name those below it, never those above. `tests/tidy.rs` keeps it so.
//!
//! | layer | modules |
//! |---|---|
//! | words | [`net`] |
//! | data | [`model`]: what a Service means; [`rules`]: the language of payloads; [`ruleset`]: chains and jumps of a kube-proxy |
//! | reading | [`inspect`]: service ports in rules, differences between rulesets, paths of packets |
//! | core | [`ingest`], [`tracker`], [`select`], then [`render`], then [`conntrack`] |
//! | shell | [`host`], [`telemetry`], [`watch`], [`events`], [`health`] |
//! | loop | [`sync`] |
//! | program | [`config`], [`app`], [`cli`] |
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`net`], [`model`] | addresses and families; Services, slices and the Node, reduced for rules |
//! | [`rules`] | the language of iptables-restore as data: read, apply, compare, trace |
//! | [`ruleset`] | names and roles of the chains and jumps of a kube-proxy |
//! | [`ingest`] | Kubernetes objects to model: parse, don't validate |
//! | [`tracker`] | changes since the last sync that reached the kernel |
//! | [`inspect`] | `catalog`: rules to Services; `diff`: differences in terms of Services; `explain`: paths of packets, and their reasons |
//! | [`select`] | endpoints that this node uses: policies, hints, fallback |
//! | [`render`] | model to payload: plans, writes, and knows the applied rules |
//! | [`conntrack`] | UDP flows that the rules would send elsewhere now |
//! | [`host`] | the only module that touches the node |
//! | [`watch`] | API server or manifests to changes |
//! | [`sync`] | when and how much to restore, and what follows a failure |
//! | [`health`], [`events`] | responses to probes and load balancers; Events for operators |
//! | [`app`], [`cli`], [`config`], [`telemetry`] | the shell around it |
//! | [`testing`] | what tests and benchmarks use of all these |
//!
//! # Invariants
//!
//! - Up to [`conntrack`] nothing is asynchronous, reads a clock or the environment, logs, counts,
//!   or can fail: odd input becomes a model value or an [`ingest::Diagnostic`].
//! - Output is a function of the input: sorted, and the same bytes every time.
//! - [`tracker`] and [`render`] do not know each other; [`sync`] passes the changes of one to the
//!   other.
//! - A change counts as applied once the kernel has accepted it. A failed restore loses no change
//!   and is followed by a full one.
//!
//! # Words
//!
//! - *service port*: one (Service, port name, protocol); owns chains.
//! - *dispatch chain*: a chain that exists whatever the Services are, and to which every Service
//!   adds rules, like `KUBE-SERVICES`. A *fixed chain* has only rules that depend on options.
//! - *applied*: accepted by the kernel in the last successful restore.
//! - *dirty*: different from the applied state.

#[cfg(test)]
#[path = "../tests/support/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "../tests/support/schema.rs"]
mod schema;

mod net;

mod model;
mod rules;
mod ruleset;

mod inspect;

mod ingest;
mod select;
mod tracker;

mod render;

mod conntrack;

mod events;
mod health;
mod host;
mod telemetry;
mod watch;

mod sync;

mod app;
pub mod cli;
mod config;

pub mod testing;
