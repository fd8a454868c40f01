//! Events, as `kubectl get events` shows them.
//!
//! They are written to the API server by a task of its own: the server may be slow, not available,
//! or reject them, and no other part of the process waits for it.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/events/event_broadcaster.go (v1.37)

mod event;
mod queue;

pub(crate) use event::{Event, Origin};
pub(crate) use queue::{Recorder, Writer, recorder};
