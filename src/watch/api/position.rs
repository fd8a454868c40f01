//! How far one kind is known, and from where to go on after a failure.
//!
//! Apart and pure because it decides between asking for what changed and asking for everything.

use super::error::ApiError;
use super::page::Paging;
use super::request::Start;

/// How often the server may fail at one thing before another is tried: to go on from the same
/// resource version, then everything is listed; to stream everything, then it is listed in pages.
/// Without a limit, one event that the server can't deliver would block for ever.
const PATIENCE: u8 = 3;

/// Where to go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Position {
    /// Nothing is known: the whole state as a stream of events.
    Streaming {
        /// Answers that were errors.
        errors: u8,
    },
    /// Nothing is known and streaming was refused: a list. The next one is tried as a stream
    /// again, since servers are upgraded.
    Listing(Paging),
    /// All is known up to here.
    At {
        /// As the server wrote it: not a number.
        resource_version: String,
        /// Answers that were errors since then.
        errors: u8,
    },
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// Ask in the other way now: the server works.
    AtOnce,
    /// List again after a pause as short as the first: the server works, and after a restart it
    /// tells every node so, when their pauses have grown long.
    Soon,
    /// Wait first, longer each time.
    AfterPause,
}

impl Position {
    /// Before the first list.
    pub(super) fn new() -> Self {
        Self::Streaming { errors: 0 }
    }

    /// Notes that all is known up to `resource_version`; does nothing if that is empty.
    pub(super) fn reach(&mut self, resource_version: &str) {
        match self {
            _ if resource_version.is_empty() => {}
            Self::At {
                resource_version: reached,
                errors,
            } => {
                resource_version.clone_into(reached);
                *errors = 0;
            }
            Self::Streaming { .. } | Self::Listing(_) => {
                *self = Self::At {
                    resource_version: resource_version.to_owned(),
                    errors: 0,
                };
            }
        }
    }

    /// Where a watch from here begins.
    pub(super) fn start(&self) -> Start<'_> {
        match self {
            Self::At {
                resource_version, ..
            } => Start::After(resource_version),
            Self::Streaming { .. } | Self::Listing(_) => Start::Everything,
        }
    }

    /// Moves to where to go on after `error`.
    pub(super) fn retreat(&mut self, error: &ApiError) -> Haste {
        let is_expired = matches!(error, ApiError::Expired { .. });
        match self {
            Self::Streaming { .. } if error.is_about_the_request() => {
                *self = Self::Listing(Paging::Pages);
                return Haste::AtOnce;
            }
            Self::Streaming { errors } => {
                *errors = errors.saturating_add(u8::from(is_lasting(error)));
                if *errors >= PATIENCE {
                    *self = Self::Listing(Paging::Pages);
                }
            }
            Self::Listing(paging) if is_expired => *paging = Paging::Whole,
            Self::Listing(_) => {}
            Self::At { .. } if is_expired => {
                *self = Self::new();
                return Haste::Soon;
            }
            Self::At { errors, .. } => {
                *errors = errors.saturating_add(u8::from(is_lasting(error)));
                if *errors >= PATIENCE {
                    *self = Self::new();
                }
            }
        }
        Haste::AfterPause
    }
}

/// Whether the same request may get the same error for ever. Being busy or not letting us in
/// passes, and listing would not help against it.
fn is_lasting(error: &ApiError) -> bool {
    !matches!(error.status(), None | Some(401 | 403 | 429 | 502 | 503))
}
