//! Objects that are written, which is seldom and never waited for.
//!
//! Apart from lists and watches because nothing of the answer is read.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use kube::client::Body;

use super::answer::Answer;
use super::client::ApiServer;
use super::error::ApiError;

/// Sends an object, or with [`Method::PATCH`] what of it is new, as JSON.
pub async fn write(
    server: &ApiServer,
    method: Method,
    path: &str,
    json: String,
) -> Result<(), ApiError> {
    let content = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, content)
        .body(Body::from(json.into_bytes()))
        .map_err(|error| ApiError::Connection(error.into()))?;
    let answer = Answer::of(server, request).await?;
    // Read, so that the connection can be used again.
    answer.beginning().await;
    Ok(())
}
