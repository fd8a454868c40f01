//! Where observations go, and with them what happened on the way.
//!
//! Nothing else is asked of the caller of this module.

use std::future::Future;
use std::time::Duration;

use super::error::ApiError;
use super::object::Undecodable;
use crate::watch::Observed;

/// Receives what is seen of one kind, in order.
pub trait Sink<K>: Send {
    /// Takes an observation. No more is read from the server until it is done.
    fn observe(&mut self, observed: Observed<K>) -> impl Future<Output = ()> + Send;

    /// Hears what happened, for health and metrics; in order with the observations.
    fn notice(&mut self, notice: Notice<'_>);
}

/// What happened between us and the server. Everything in it is logged already.
#[derive(Debug)]
pub enum Notice<'a> {
    /// The server accepted a list or a watch.
    Connected,
    /// Everything that was observed is current: a list is complete, or an event or a bookmark of a
    /// watch came.
    Current,
    /// A list or a watch failed and is tried again after `pause`.
    Failed {
        /// Why.
        error: &'a ApiError,
        /// How long nothing will be asked.
        pause: Duration,
    },
    /// An object exists and can't be read. Its last readable state stands, also if this comes
    /// between [`Observed::Listing`] and [`Observed::Listed`]: it was in the list.
    Undecodable(&'a Undecodable),
}
