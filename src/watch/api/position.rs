//! How far one kind is known, and from where to go on after a failure.
//!
//! Kept separate from [`follow`](super::follow) and pure, because it decides between asking for
//! what changed and asking for everything.

use super::error::ApiError;
use super::page::Paging;
use super::request::Start;

/// Failures after which another request is tried: instead of a watch that resumes, everything is
/// listed; instead of a stream of everything, pages; instead of pages, a stream again. Without a
/// limit, one event that the server cannot deliver would block its kind for ever; with a smaller
/// one, a server that is restarted twice would be asked for everything.
const MOST_ERRORS: u8 = 3;

/// Where to go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Position {
    /// Nothing is known: the whole state as a stream of events.
    Streaming {
        /// Answers that were errors.
        errors: u8,
    },
    /// Nothing is known and streaming did not work: a list. The next one is tried as a stream
    /// again, since servers are upgraded.
    Listing {
        /// Amount asked for at once.
        paging: Paging,
        /// Answers that were errors.
        errors: u8,
    },
    /// All is known up to here.
    At {
        /// As the server wrote it: not a number.
        resource_version: String,
        /// Answers that were errors since the last event.
        errors: u8,
        /// Messages that could not be read since the last list. Events do not reset it: each of
        /// these messages may have been an event that is lost.
        unreadable: u8,
    },
}

/// When to ask again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDelay {
    /// Now, in another way: the server works.
    None,
    /// After a delay as short as the first, if that was not just done: the server works, and after
    /// a restart it answers every node so, when their delays have grown long.
    Short,
    /// Longer each time.
    Growing,
}

impl Position {
    /// Before the first list.
    pub(super) fn new() -> Self {
        Self::Streaming { errors: 0 }
    }

    /// Notes that everything up to `resource_version` is listed.
    pub(super) fn listed(&mut self, resource_version: &str) {
        *self = Self::At {
            resource_version: resource_version.to_owned(),
            errors: 0,
            unreadable: 0,
        };
    }

    /// Notes that a watch brought everything up to `version`, if that is one to go on from: an
    /// object that cannot be read may have none.
    pub(super) fn advance(&mut self, version: &str) {
        if let Self::At {
            resource_version,
            errors,
            ..
        } = self
            && is_point(version)
        {
            version.clone_into(resource_version);
            *errors = 0;
        }
    }

    /// Where a watch from here begins.
    pub(super) fn start(&self) -> Start<'_> {
        match self {
            Self::At {
                resource_version, ..
            } => Start::After(resource_version),
            Self::Streaming { .. } | Self::Listing { .. } => Start::Everything,
        }
    }

    /// Moves to where to go on after `error`.
    pub(super) fn retreat(&mut self, error: &ApiError) -> RetryDelay {
        match self {
            Self::Streaming { .. } if error.is_about_the_request() => {
                *self = Self::pages();
                return RetryDelay::None;
            }
            // Something on the way may break off every stream; but the server may have been
            // restarted, so not at once.
            Self::Streaming { .. } if matches!(error, ApiError::Broken(_)) => *self = Self::pages(),
            Self::Streaming { errors } => {
                if error.is_lasting() && is_too_often(errors) {
                    *self = Self::pages();
                }
            }
            Self::Listing { paging, errors } => {
                if matches!(error, ApiError::Expired { .. }) {
                    *paging = Paging::Whole;
                }
                // Also if the server is busy: a stream costs it less.
                if !matches!(error, ApiError::Connection(_)) && is_too_often(errors) {
                    *self = Self::new();
                }
            }
            Self::At { .. } if matches!(error, ApiError::Expired { .. }) => {
                *self = Self::new();
                return RetryDelay::Short;
            }
            Self::At {
                errors, unreadable, ..
            } => {
                let count = match error {
                    ApiError::Malformed(_) => unreadable,
                    _ => errors,
                };
                if error.is_lasting() && is_too_often(count) {
                    *self = Self::new();
                }
            }
        }
        RetryDelay::Growing
    }

    fn pages() -> Self {
        Self::Listing {
            paging: Paging::Pages,
            errors: 0,
        }
    }
}

/// Reports whether a watch can go on from `version` without a gap. From `0` it begins with what the
/// server happens to remember, and says nothing of what is gone.
pub(super) fn is_point(version: &str) -> bool {
    !matches!(version, "" | "0")
}

/// Counts one more.
fn is_too_often(count: &mut u8) -> bool {
    *count = count.saturating_add(1);
    *count >= MOST_ERRORS
}
