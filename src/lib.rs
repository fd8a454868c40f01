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
//! | words | [`net`], [`linux`], [`text`] |
//! | data | [`model`]: what a Service means; [`rules`]: the language of payloads; [`ruleset`]: chains and jumps of a kube-proxy |
//! | reading | [`inspect`]: service ports in rules, differences between rulesets, paths of packets; only with the feature `tools`, as are the commands on it |
//! | core | [`ingest`], [`tracker`], [`select`], then [`render`], then [`conntrack`] |
//! | shell | [`host`], [`telemetry`], [`status`], [`history`], [`watch`], [`events`], [`health`] |
//! | loop | [`sync`], then [`shadow`] |
//! | program | [`config`], [`app`], [`cli`] |
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`net`], [`model`] | addresses and families; Services, slices and the Node, reduced for rules |
//! | [`linux`] | netlink sockets and inotify, which fail on other systems |
//! | [`text`] | words of messages that all modules share |
//! | [`rules`] | the language of iptables-restore as data: read, compare, trace |
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
//! | [`shadow`] | compares the rules of a running kube-proxy with those that `sync` would write |
//! | [`status`] | pages and documents about the state of the node, for operators and commands |
//! | [`history`] | records of past syncs in a folder |
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
//! - A change counts as applied once the kernel has accepted it. A failed restore loses no change.
//!   A full one follows at once, unless the failure says nothing about the payload: the xtables
//!   lock was busy (on legacy, earlier tables may be written by then), or the program did not
//!   start.
//!
//! # Design of the record
//!
//! The proxy compares three things: the chains that it *desires*, those that it has *recorded* as
//! being in the kernel, and those that it has *read*. All three have one form, so that what was
//! read can be compared with the record without rendering: a digest of the rules of a chain in
//! their normal form, whatever their spelling (`rules::RulesDigest`).
//!
//! The record is `render::AppliedState`. Three operations change what it says of the kernel,
//! `observe`, `written` and `maybe_written`; `partial_payload` changes what is desired:
//!
//! - `observe` compares what was read, single chains or whole tables, with the record, notes which
//!   chains are damaged, and returns them. A check of changed chains and a verification are an
//!   `observe`. An adoption records Service chains as rendered, but only those dispatch rules that
//!   the kernel has (a target may be missing), makes the Services of others due, and observes all.
//! - `partial_payload` renders Services, and puts into the payload what differs from the record:
//!   their chains, dispatch chains whose rules change or that are damaged, damaged fixed chains,
//!   missing entry jumps, and the deletion of stale chains. What it has rendered is due until it is
//!   written.
//! - `written` records the chains of a payload after the restore has succeeded.
//! - `maybe_written` marks them as damaged, if the kernel may have a part of the payload.
//!
//! To prove that the node can restore rules, a search marks the chains of a Service as damaged that
//! are not, so that they are written again. Chains in the record are those that should be in the
//! kernel: those that were found missing are damaged.
//!
//! Each reading of whole tables also shows which chains third-party rules reference. The kernel
//! rejects the deletion of these, so payloads empty them. A partial one may still fail because of a
//! reference that is not known yet: the full restore after it reads all.
//!
//! Fixed chains and entry jumps have no digest: `sync::drift_detection` lists them,
//! `render::GuardedChainState` compares them with the options, and `note_drift` notes those that
//! the next payload writes. What a payload has to render or write besides, such as a Service whose
//! trial was undone, is *due*.
//!
//! The desired rules of dispatch chains are beside the record, because a dispatch chain has the
//! rules of all Services, and only some are rendered. A Service whose desired rules were not
//! written, or of which a chain is damaged, is *due*: each payload renders it until it is written.
//!
//! `sync::KernelState` is `Known`, with a record, or `Unknown`: the next sync is full. Until a
//! restore or an adoption has succeeded, it adopts instead, unless one has failed.
//!
//! That partial payloads add up to a full one is another comparison, of the record with everything
//! rendered, without a reading: `render::unlike_rendered`.
//!
//! Five walks:
//!
//! - **An endpoint is removed**: `watch` sends a `Change`; `Tracker::apply` marks the Service;
//!   `Syncer::once` calls `partial`, which renders it with `partial_payload`; `restore_changes`
//!   restores the payload, and records it with `written`; `mark_applied` ends it.
//! - **Another program deletes a rule**: on nft `host` reports the chain, and `Task` reads a
//!   Service or dispatch chain with `read_chains`, and for a fixed or built-in one all guarded
//!   chains of its table with `check_guarded_chains`; on legacy `host` reports within a second that
//!   the size of a table changed, and `Task` reads all of filter and nat. A change that keeps the
//!   size is found by the next verification. `KernelState::note_drift` calls `observe`, which makes
//!   the Service of a chain due, or notes that the dispatch chain or tree chain is damaged; a sync
//!   follows as above.
//! - **A start**: the state is `Unknown`; `Syncer::adopt` reads all chains with `read_rules`, makes
//!   a record with `render::adopt`, and writes the difference of what is due. If shared chains are
//!   incomplete, a table is unreadable, or most Service chains differ, all rules are written
//!   instead.
//! - **A partial restore fails**: the `Failure` says whether the kernel has none of it, and which
//!   Service a rejected line is of. A full restore follows at once; after a busy lock, the next
//!   sync tries the partial one again. If the full one fails as well, `Syncer::search` holds back
//!   the dirty Services, reads and observes all chains, writes the rest, and quarantines the
//!   Service of the rejected line, or those that a `Bisection` finds. If up to two other Services,
//!   or without others the fixed chains, cannot be rewritten either, or several fail and none has
//!   rules, the node is at fault: the quarantine is undone, and the sync is retried. Later syncs
//!   that were applied continue the search, or try the changes of one Service in quarantine, and
//!   release it if they can be restored: `continue_trials`.
//! - **A service port becomes rules**: `Plan`, `ServiceRules`, `partial_payload`.
//!
//! # Words
//!
//! Chains:
//!
//! - *Service port*: one (Service, port name, protocol). *Service chain*: a chain of one service
//!   port, `KUBE-SVC-`, `KUBE-SVL-`, `KUBE-EXT-`, `KUBE-FW-` or `KUBE-SEP-` and a hash.
//! - *Dispatch chain*: exists whatever the Services are, and has rules of all of them, like
//!   `KUBE-SERVICES`. It is *flat*, or the root of *tree chains*, each with the rules whose
//!   addresses or ports begin with the same bits. Comparisons count a tree chain as a dispatch
//!   chain.
//! - *Fixed chain*: has only rules that depend on render options, like `KUBE-POSTROUTING`. *Shared
//!   chain*: a dispatch or fixed chain. *Entry jump*: a jump to one from a built-in chain.
//! - *Canary*: an empty chain whose absence shows a *flush*, the removal of all rules of a table.
//!   *Guarded chain*: a fixed chain, a canary, or a built-in chain with entry jumps.
//! - *kube-proxy chain*: has a name that kube-proxy uses, whichever program made it. *kube-proxy
//!   rule*: a rule in one, or an entry jump. *Third-party* rules are of other programs.
//! - *Chain declaration*: the line `:CHAIN - [0:0]`, which creates or empties a chain of ours.
//! - *Unprintable*: a rule that the iptables binaries cannot print, because only `nft` can or an
//!   extension is missing, its chain and its table.
//! - *Frontend*: address, port and protocol, or a NodePort, that a Service claims. If several claim
//!   one, the tracker selects its owner, and the others have *lost* it.
//! - *Render options*: inputs of rules besides the Services.
//!
//! Knowledge of the kernel:
//!
//! - *Desired*: follows from the input. *Live*: read from the kernel. *Recorded*, or *applied*: in
//!   the kernel as far as is known, written by a restore that succeeded, or *adopted*: found at the
//!   start. Last applied state of a Service: the objects that its recorded rules were rendered
//!   from.
//! - *Dirty*: a Service whose objects or lost frontends changed since it was last applied.
//!   *Damaged*: a recorded chain that was found changed or missing, or that a failed restore may
//!   have changed. *Due*: a Service that each payload renders, whether dirty or not: a chain of it
//!   is damaged, its changes were rendered and not written, or it is rendered in another form than
//!   before.
//! - *Stale*: a chain or rule of ours that is not desired anymore: its Service, port or endpoint is
//!   gone.
//! - *Drift*: how the kernel differs from the record, or the record from all Services as rendered.
//! - *Comparison*: finds drift. A *check* is of guarded chains, or of chains that another program
//!   changed; a *verification* is of all rules. *Reading*: the part of it that runs iptables
//!   binaries.
//!
//! Syncs:
//!
//! - *Restore*: a run of `iptables-restore --noflush`; its input is a *payload*. *Sync*: one or two
//!   *attempts* to apply all dirty Services, then a search or a retry. An attempt is full, partial
//!   or an adoption, with at most one restore.
//! - *Search*: *trial* restores that find the Services that make restores fail. *Suspect*: may be
//!   one. *Quarantine*: the Services found, which block no others; trials retry their changes.
//!   *Override*: state of a Service that is rendered in place of its state in the cluster.

#![cfg_attr(
    feature = "testing",
    allow(missing_docs, reason = "only `testing` exports items")
)]
#![cfg_attr(
    not(feature = "testing"),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "only `testing` exports items, and some have no other user"
    )
)]

/// Declares an enum whose values are printed as words, in logs, metrics and output. It must be
/// `Copy`. With `all` before it, it has the constant `ALL`.
macro_rules! enum_of_words {
    (all $(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$more:meta])* $value:ident = $word:literal,)*
    }) => {
        enum_of_words! {
            $(#[$about])* $vis enum $name { $($(#[$more])* $value = $word,)* }
        }

        impl $name {
            /// All values, in the order of their declaration.
            $vis const ALL: [Self; [$($word),*].len()] = [$(Self::$value),*];
        }
    };
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$more:meta])* $value:ident = $word:literal,)*
    }) => {
        $(#[$about])*
        $vis enum $name { $($(#[$more])* $value,)* }

        impl $name {
            /// Returns the word for the value.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

#[cfg(test)]
#[path = "tests/cases.rs"]
mod cases;
#[cfg(test)]
#[path = "../tests/support/hostile.rs"]
mod hostile;
#[cfg(test)]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "support of integration tests: modules use a part"
)]
#[path = "../tests/support/left_out.rs"]
mod left_out;
#[cfg(test)]
#[path = "tests/log.rs"]
mod logged;
#[cfg(test)]
#[allow(unreachable_pub, reason = "support of integration tests")]
#[path = "../tests/support/tell.rs"]
mod tell;

mod clock;
mod linux;
mod net;
mod text;

mod model;
mod rules;
mod ruleset;

#[cfg(feature = "tools")]
mod inspect;

mod ingest;
mod select;
mod tracker;

mod render;

mod conntrack;

mod events;
mod health;
mod history;
mod host;
mod status;
mod telemetry;
mod watch;

mod sync;

mod shadow;

mod app;
pub mod cli;
mod config;

#[cfg(feature = "testing")]
#[path = "tests/testing.rs"]
pub mod testing;
