//! A cluster's objects, listed once, or why its server does not give them.
//!
//! Apart from [rendering](super::desired) because a server can refuse in many ways, and whoever
//! typed the command wants to know which server, and what to do.

use std::error::Error;
use std::time::Duration;

use crate::config::Unusable;
use crate::model::Change;
use crate::net::PerFamily;
use crate::watch::api::{self, ApiError, ApiOptions, ConnectError};
use crate::watch::{Observed, Outlet};

/// How long the API server may take to list everything.
const LIST_DEADLINE: Duration = Duration::from_secs(60);

/// Sends all that a proxy on this node sees.
pub(super) fn list(
    options: &ApiOptions,
    node: &str,
    outlet: &mut Outlet<PerFamily<Vec<Change>>>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let snapshot = runtime.block_on(async {
        let server = api::connect(options).await.map_err(unconnected)?;
        let listed = api::snapshot(&server, node, LIST_DEADLINE).await;
        listed.map_err(|error| unlisted(&error, server.address()))
    })?;
    let set_services = snapshot.services.objects.iter().map(Observed::Set);
    set_services.for_each(|service| outlet.service(service));
    snapshot
        .slices
        .objects
        .iter()
        .for_each(|slice| outlet.endpoint_slice(Observed::Set(slice)));
    snapshot
        .nodes
        .objects
        .iter()
        .for_each(|node| outlet.node(Observed::Set(node)));
    Ok(())
}

/// Whoever named nothing did not ask for a Pod's service account either.
fn unconnected(error: ConnectError) -> anyhow::Error {
    match error {
        ConnectError::InCluster(_) => Unusable::without_source().into(),
        other => other.into(),
    }
}

fn unlisted(error: &ApiError, address: &str) -> anyhow::Error {
    let server = format!("the API server `{address}`");
    match error {
        ApiError::Connection(cause) => anyhow::anyhow!(
            "{server} did not answer: {}\n\
             hint: is it up, and the one that --kubeconfig or --master should name?",
            first_cause(&**cause)
        ),
        ApiError::Status { code: 401, .. } => anyhow::anyhow!(
            "{server}: {error}\n\
             hint: it does not know who asks; are the kubeconfig's credentials expired, or of \
             another cluster?"
        ),
        ApiError::Status { code: 403, .. } => anyhow::anyhow!(
            "{server}: {error}\n\
             hint: who asks must be allowed to list Services, EndpointSlices and Nodes"
        ),
        ApiError::Status { code: 404, .. } | ApiError::Malformed(_) => anyhow::anyhow!(
            "{server}: {}\n\
             hint: is it an API server at all? --kubeconfig or --master names it",
            error.in_full()
        ),
        other => anyhow::anyhow!("{server}: {}", other.in_full()),
    }
}

/// What happened; the errors around it say in which library.
fn first_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    error.source().map_or(error, first_cause)
}
