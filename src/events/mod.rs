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

pub use event::Event;
pub use object::Origin;
pub use recorder::Recorder;
pub use writer::{Writer, recorder};
