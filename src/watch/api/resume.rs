//! Checks the resource version of a watch that has resumed: it has gone back if etcd was restored
//! from an older backup.
//!
//! A server then sends neither events nor bookmarks to a watch that resumes from a version above
//! its own, until the version of the cluster has passed that one, which may take hours. New objects
//! stay unknown meanwhile, and deleted ones stay in use.
//!
//! # Source
//!
//! Differs from upstream: client-go resumes such a watch without a check.

use std::time::Duration;

use tokio::time::timeout;

use super::client::ApiClient;
use super::error::ApiError;
use super::list::current_version;
use super::resource::{Resource, Selector};
use super::retry::NextRequest;

/// Maximum time of a check: the events of the watch wait for it.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Compares the version that a watch has resumed from with the current one of the server, if that
/// is due. After the server has accepted the watch: one that is down or busy gets no request more
/// than without the check.
///
/// # Errors
///
/// [`ApiError::VersionWentBack`] only. If the request fails, nothing follows: a watch without an
/// event is checked again after three minutes.
pub(super) async fn check_resumed<K: Resource>(
    server: &ApiClient,
    selector: &Selector<K>,
    next: &mut NextRequest,
) -> Result<(), ApiError> {
    if !next.take_version_check() {
        return Ok(());
    }
    let version = timeout(CHECK_TIMEOUT, current_version(server, selector)).await;
    match version.unwrap_or(Err(ApiError::TimedOut(CHECK_TIMEOUT))) {
        Ok(version) => next.expect_not_older(&version),
        Err(error) => {
            let (server, kind, error) = (server.address(), K::KIND, error.in_full());
            tracing::debug!(server, kind, error, "cannot check the resource version");
            Ok(())
        }
    }
}
