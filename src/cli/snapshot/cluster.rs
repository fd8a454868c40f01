//! Lists the objects of a cluster once, and turns failures into errors that say what to do.

use std::error::Error;

use super::rules::ServiceTypes;
use crate::app::connect_error;
use crate::cli::terminal::{Progress, escaped};
use crate::config::environment;
use crate::watch::api::{self, ApiError, ApiOptions, ConnectFailure, is_not_http};
use crate::watch::{Ingester, SourceEvent};

/// Lists the objects that a proxy on this node watches. Returns the types of the Services.
pub(super) fn list(
    options: &ApiOptions,
    node: &str,
    ingester: &mut Ingester,
) -> anyhow::Result<ServiceTypes> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let snapshot = runtime.block_on(async {
        // A credential plugin may ask for a password, or hang.
        let progress = Progress::of_server("waiting for credentials of the API server".to_owned());
        let server = api::build_client(options, &environment::proxies())
            .await
            .map_err(connect_error)?;
        drop(progress);
        let _progress = Progress::of_server(waiting_text(options, server.address()));
        let listed = api::snapshot(&server, node, options.list_timeout).await;
        listed.map_err(|error| list_error(&error, server.address()))
    })?;
    let set_services = snapshot.services.objects.iter().map(SourceEvent::Set);
    set_services.for_each(|service| ingester.service(service));
    snapshot
        .slices
        .objects
        .iter()
        .for_each(|slice| ingester.endpoint_slice(SourceEvent::Set(slice)));
    snapshot
        .nodes
        .objects
        .iter()
        .for_each(|node| ingester.node(SourceEvent::Set(node)));
    Ok(ServiceTypes::read(&snapshot.services.objects))
}

fn waiting_text(options: &ApiOptions, address: &str) -> String {
    let limit = match options.list_timeout {
        Some(limit) => format!("at most {} s", limit.as_secs_f64()),
        None => "without a limit".to_owned(),
    };
    let address = escaped(address);
    format!("waiting for the API server `{address}`, {limit} (--request-timeout)")
}

/// Converts an error of listing: names the server and what to do.
fn list_error(error: &ApiError, address: &str) -> anyhow::Error {
    let server = format!("the API server `{address}`");
    let is_plain = address.starts_with("http:");
    match error {
        ApiError::Connection(cause) if is_plain && is_not_http(&**cause) => anyhow::anyhow!(
            "{server} did not answer in HTTP: {}\n\
             hint: {USE_HTTPS}",
            first_cause(&**cause)
        ),
        ApiError::Connection(cause) => connection_error(&server, &**cause),
        ApiError::Status { code: 400, .. } if is_plain => anyhow::anyhow!(
            "{server}: {error}\n\
             hint: {USE_HTTPS}"
        ),
        ApiError::Status { code: 401, .. } => anyhow::anyhow!(
            "{server}: {error}\n\
             hint: check that the credentials of the kubeconfig are of this cluster and not expired"
        ),
        ApiError::Status { code: 403, .. } => anyhow::anyhow!(
            "{server}: {error}\n\
             hint: allow the user to list Services, EndpointSlices and Nodes"
        ),
        ApiError::Status { code: 404, .. } | ApiError::ProtocolError(_) => anyhow::anyhow!(
            "{server}: {}\n\
             hint: check that --kubeconfig or --master names an API server",
            error.in_full()
        ),
        ApiError::DeadlineExceeded(_) | ApiError::TimedOut(_) => anyhow::anyhow!(
            "{server}: {error}\n\
             hint: check that it is up and reachable from here, or set a longer --request-timeout"
        ),
        other => anyhow::anyhow!("{server}: {}", other.in_full()),
    }
}

/// Hint for an address without TLS whose server expects it.
const USE_HTTPS: &str = "use https:// in the address, unless the server has no TLS";

/// Converts an error of a request without a response.
fn connection_error(server: &str, cause: &(dyn Error + 'static)) -> anyhow::Error {
    match ConnectFailure::find(cause) {
        Some(failure @ ConnectFailure::CredentialPlugin(_)) => anyhow::anyhow!(
            "{server}: {failure}\n\
             hint: run the command of `users[].user.exec` of the kubeconfig by itself"
        ),
        Some(failure @ ConnectFailure::Certificate(_)) => anyhow::anyhow!(
            "{server}: {failure}\n\
             hint: check that the certificate authority of the kubeconfig is that of this cluster"
        ),
        Some(failure @ ConnectFailure::NotTls(_)) => anyhow::anyhow!(
            "{server}: {failure}\n\
             hint: use http:// in the address if the server has no TLS, or the port of the API server"
        ),
        Some(failure @ ConnectFailure::Proxy(_)) => anyhow::anyhow!(
            "{server}: {failure}\n\
             hint: check `proxy-url` of the kubeconfig, or HTTPS_PROXY, HTTP_PROXY and NO_PROXY; the \
             certificate authority of the kubeconfig is for the proxy as well"
        ),
        None => anyhow::anyhow!(
            "{server} did not answer: {}\n\
             hint: check that it is up, and that --kubeconfig or --master names the right one",
            first_cause(cause)
        ),
    }
}

/// Returns the innermost cause; the errors around it only name libraries.
fn first_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    error.source().map_or(error, first_cause)
}
