//! Events, as `kubectl get events` shows them.
//!
//! They are written to the API server by a task of its own: the server may be slow, not available,
//! or reject them, and no other part of the process waits for it.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/events/event_broadcaster.go (v1.36)

mod event;
mod object;
mod recorder;
mod series;
mod writer;

pub(crate) use event::Event;
pub(crate) use object::Origin;
pub(crate) use recorder::Recorder;
pub(crate) use writer::{Writer, recorder};
