//! What operators find with `kubectl get events`.
//!
//! Apart from logs and metrics because it is written to the API server, which may be slow, away or
//! unwilling: whoever has something to say never waits for that.
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
pub use recorder::{Recorder, recorder};
pub use writer::Writer;
