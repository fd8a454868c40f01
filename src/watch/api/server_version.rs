//! Requests the version of the API server.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/version/types.go, `Info` (v1.36)

use serde::Deserialize;

use super::client::ApiClient;
use super::error::{ApiError, not_decodable};
use super::request::{Encoding, RequestKind};
use super::response::ApiResponse;
use crate::telemetry::KubernetesVersion;

/// Body of `/version`; its other fields are not used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionResponse {
    git_version: String,
}

/// Requests the version of the API server, which it gives to every user.
pub(crate) async fn server_version(server: &ApiClient) -> Result<KubernetesVersion, ApiError> {
    let response =
        ApiResponse::get_as(server, Encoding::Json.accept(RequestKind::List), "/version");
    let body = response.await?.short_body().await;
    let info: VersionResponse = serde_json::from_slice(&body).map_err(not_decodable)?;
    let version = KubernetesVersion::parse(&info.git_version);
    version.ok_or_else(|| not_decodable("`gitVersion` is not a valid version"))
}
