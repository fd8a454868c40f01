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
//! # Design of the record
//!
//! `render::applied` and `sync` are being moved to this, in steps that each keep every test.
//!
//! The proxy compares three things: the chains that it *desires*, those that it has *recorded* as
//! being in the kernel, and those that it has *read*. All three have one form, so that what was
//! read can be compared with the record without rendering: a digest of the rules of a chain in
//! their normal form, whatever their spelling. Done for Service chains and tree chains
//! (`rules::RulesDigest`). To do: flat dispatch chains, whose rules are still matched one by one.
//!
//! ```text
//! struct RecordedChain { digest: RulesDigest, is_damaged: bool, rule_count: u32 }
//! enum Owner { Service(ServiceName), Dispatch(DispatchChain), None }
//! struct KernelRecord                 // of each Service a sorted slice of its chains; the rest by name
//!   fn observe(&mut self, read: &LiveRules, of: &ChainSet) -> Vec<(Owner, Chain)>
//!   fn difference(&self, desired: &DesiredChains) -> PartialPayload
//!   fn written(&mut self, payload: PartialPayload, tables: Committed)
//! enum ChainSet { All, Some(BTreeSet<(Table, Box<str>)>) }
//! enum KernelState { Known(KernelRecord), Unknown(UnknownReason) }
//! enum UnknownReason { Start, Flushed, RestoreFailed }
//! ```
//!
//! - `observe` notes in the record which chains are damaged, and returns them: their owners are
//!   dirty, as after a change in the cluster. A check, a verification and a flush are `observe` of
//!   some or all chains. Adoption renders all Services, which says whose each chain is, records
//!   them as if written, and is `observe` of all chains then; it may decline (`DeclineReason`).
//! - `DesiredChains` are the chains of some Services, and the dispatch chains, each with its text,
//!   digest and owner. A flat dispatch chain is desired as a whole, and written as a whole.
//! - A payload carries the digests of its chains by table; `written` records those of the tables
//!   that were committed. Nothing is recorded in advance.
//! - `FullReason` stays: a periodic full sync, or one after a change of options, is made although
//!   the kernel is known.
//! - Guarded chains stay apart: third-party rules in them are judged by rule, not by digest.
//! - The override of a Service in quarantine is its desired state, as for any other.
//!
//! That partial payloads add up to a full one is another comparison, of the record with everything
//! rendered: it needs no reading. Done (`render::unlike_rendered`).
//!
//! Five walks, as they will be:
//!
//! - **An endpoint is removed**: `watch` sends a `Change`; `Tracker::apply` marks the Service;
//!   `Syncer::once` renders it, `difference`, `Iptables::restore`, `written`, `mark_applied`.
//! - **Another program deletes a rule**: `host` reports the chain; `Task` reads it and calls
//!   `observe`, which returns its owner; `Syncer::once` goes on as above.
//! - **A start**: the state is `Unknown(Start)`; `Syncer::once` reads all chains, adopts them, and
//!   writes the `difference` of all Services.
//! - **A partial restore fails**: the state is `Unknown(RestoreFailed)`; a full restore follows at
//!   once. If that fails, all chains are read, and adopted: the state is `Known`. The Service of
//!   the rejected line, or the one that `Bisection` finds, is quarantined; the others are written
//!   as a difference.
//! - **A service port becomes rules**: `Plan`, `ServiceRules`, `DesiredChains`, `difference`.
//!
//! # Words
//!
//! - *service port*: one (Service, port name, protocol); owns chains.
//! - *dispatch chain*: a chain that exists whatever the Services are, and to which every Service
//!   adds rules, like `KUBE-SERVICES`. A *fixed chain* has only rules that depend on options.
//! - *applied*: in the kernel as far as is known: written by a restore that succeeded, or adopted.
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
