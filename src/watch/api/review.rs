//! Asks the API server what this user may do, and what time it is there.

use std::time::SystemTime;

use http::HeaderValue;
use jiff::fmt::rfc2822;
use serde::Deserialize;
use serde_json::json;

use super::client::ApiClient;
use super::encoding::JSON;
use super::error::{ApiError, not_decodable};
use super::response::{ApiResponse, send_object};

/// Answer to a `SelfSubjectAccessReview`, trimmed.
///
/// Upstream: k8s.io/api/authorization/v1/types.go, `SubjectAccessReviewStatus` (v1.37)
#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewResponse {
    status: ReviewStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    allowed: bool,
}

/// Reports whether this user may do `verb` in all namespaces to the kind with the plural name
/// `resource`; the group is empty for Services and Nodes. Every user may ask.
pub(crate) async fn is_allowed(
    server: &ApiClient,
    verb: &str,
    group: &str,
    resource: &str,
) -> Result<bool, ApiError> {
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = send_object(server, path, &question).await?;
    let review: ReviewResponse = serde_json::from_slice(&body).map_err(not_decodable)?;
    Ok(review.status.allowed)
}

/// Returns the clock of the API server, to a second; `None` if its response has no valid `Date`.
pub(crate) async fn server_time(server: &ApiClient) -> Result<Option<SystemTime>, ApiError> {
    let response = ApiResponse::get_as(server, JSON, "/version").await?;
    Ok(response.date.as_ref().and_then(time))
}

fn time(date: &HeaderValue) -> Option<SystemTime> {
    let text = date.to_str().ok()?;
    // HTTP writes GMT where mail has an offset.
    let time = rfc2822::parse(&text.replace("GMT", "+0000")).ok()?;
    Some(time.timestamp().into())
}

#[cfg(test)]
#[path = "tests/review.rs"]
mod tests;
