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
//! | `testing` | what tests and benchmarks use of all these; a feature that no release has |
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
//! # Design of the record
//!
//! The proxy compares three things: the chains that it *desires*, those that it has *recorded* as
//! being in the kernel, and those that it has *read*. All three have one form, so that what was
//! read can be compared with the record without rendering: a digest of the rules of a chain in
//! their normal form, whatever their spelling (`rules::RulesDigest`).
//!
//! The record is `render::AppliedState`. Four operations change it, and no others:
//!
//! - `observe` compares what was read, single chains or whole tables, with the record, notes which
//!   chains are damaged, and returns them. A check, a verification and a flush of single chains are
//!   an `observe`. An adoption records all Services as rendered, and is an `observe` of all then.
//! - `partial_payload` renders Services, and writes what differs from the record: their chains,
//!   dispatch chains whose rules change or that are damaged, damaged fixed chains, missing entry
//!   jumps, and the deletion of stale chains.
//! - `written` records the chains of a payload after the restore has succeeded.
//! - `maybe_written` marks them as damaged, if the kernel may have a part of the payload.
//!
//! The desired rules of dispatch chains are beside the record, because a dispatch chain has the
//! rules of all Services, and only some are rendered. A Service whose desired rules were not
//! written, or of which a chain is damaged, is *due*: each payload renders it until it is written.
//!
//! `sync::KernelState` is `Known`, with a record, or `Unknown`, with the reason for a full restore.
//! That partial payloads add up to a full one is another comparison, of the record with everything
//! rendered, without a reading: `render::unlike_rendered`.
//!
//! Five walks:
//!
//! - **An endpoint is removed**: `watch` sends a `Change`; `Tracker::apply` marks the Service;
//!   `Syncer::once` calls `partial`, which renders it with `partial_payload`; `restore_changes`
//!   restores the payload, and records it with `written`; `mark_applied` ends it.
//! - **Another program deletes a rule**: `host` reports the chain; `Task` reads it, and
//!   `Syncer::find_drift` calls `observe`, which makes its Service due; a sync follows as above.
//! - **A start**: the state is `Unknown`; `Syncer::adopt` reads all chains, makes a record with
//!   `render::adopt`, and writes the difference of what is due.
//! - **A partial restore fails**: `restore_changes` notes whether the kernel may have a part of it,
//!   and a full restore follows at once. If that fails, all chains are read and observed:
//!   `Syncer::search` holds back the dirty Services, writes the rest, and finds the Service of the
//!   rejected line, or by `Bisection`, which is quarantined.
//! - **A service port becomes rules**: `Plan`, `ServiceRules`, `partial_payload`.
//!
//! # Words
//!
//! - *service port*: one (Service, port name, protocol); owns chains.
//! - *dispatch chain*: a chain that exists whatever the Services are, and to which every Service
//!   adds rules, like `KUBE-SERVICES`. A *fixed chain* has only rules that depend on options.
//! - *recorded*, or *applied*: in the kernel as far as is known: written by a restore that
//!   succeeded, or adopted. *Damaged*: recorded, but found changed or missing.
//! - *dirty*: a Service whose objects changed since they were applied. *Due*: one that the next
//!   payload renders although it may not be dirty.

#![cfg_attr(
    not(feature = "testing"),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "only `testing` exports items, and some have no other user"
    )
)]

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

#[cfg(feature = "testing")]
pub mod testing;
