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
        let progress = Progress::start("waiting for credentials of the API server");
        let server = api::build_client(options, &environment::proxies())
            .await
            .map_err(connect_error)?;
        drop(progress);
        let _progress = Progress::start(waiting_text(options, server.address()));
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
    let is_plain = address.starts_with("http:");
    let (problem, hint) = match error {
        ApiError::Connection(cause) if is_plain && is_not_http(&**cause) => {
            let cause = first_cause(&**cause);
            (format!(" did not answer in HTTP: {cause}"), USE_HTTPS)
        }
        ApiError::Connection(cause) => match ConnectFailure::find(&**cause) {
            Some(failure) => (format!(": {failure}"), connect_hint(&failure)),
            None => (
                format!(" did not answer: {}", first_cause(&**cause)),
                "check that it is up, and that --kubeconfig or --master names the right one",
            ),
        },
        error => (
            format!(": {}", error.in_full()),
            status_hint(error, is_plain),
        ),
    };
    let hint = match hint {
        "" => String::new(),
        hint => format!("\nhint: {hint}"),
    };
    anyhow::anyhow!("the API server `{address}`{problem}{hint}")
}

/// Hint for an address without TLS whose server expects it.
const USE_HTTPS: &str = "use https:// in the address, unless the server has no TLS";

/// Returns what to do about a response, or a missing one; empty if nothing is known.
const fn status_hint(error: &ApiError, is_plain: bool) -> &'static str {
    match error {
        ApiError::Status { code: 400, .. } if is_plain => USE_HTTPS,
        ApiError::Status { code: 401, .. } => {
            "check that the credentials of the kubeconfig are of this cluster and not expired"
        }
        ApiError::Status { code: 403, .. } => {
            "allow the user to list Services, EndpointSlices and Nodes"
        }
        ApiError::Status { code: 404, .. } | ApiError::ProtocolError(_) => {
            "check that --kubeconfig or --master names an API server"
        }
        ApiError::DeadlineExceeded(_) | ApiError::TimedOut(_) => {
            "check that it is up and reachable from here, or set a longer --request-timeout"
        }
        _ => "",
    }
}

/// Returns what to do about a request without a response.
fn connect_hint(failure: &ConnectFailure) -> &'static str {
    match failure {
        ConnectFailure::CredentialPlugin(_) => {
            "run the command of `users[].user.exec` of the kubeconfig by itself"
        }
        ConnectFailure::Certificate(_) => {
            "check that the certificate authority of the kubeconfig is that of this cluster"
        }
        ConnectFailure::NotTls(_) => {
            "use http:// in the address if the server has no TLS, or the port of the API server"
        }
        ConnectFailure::Proxy(_) => {
            "check `proxy-url` of the kubeconfig, or HTTPS_PROXY, HTTP_PROXY and NO_PROXY; the \
             certificate authority of the kubeconfig is for the proxy as well"
        }
    }
}

/// Returns the innermost cause; the errors around it only name libraries.
fn first_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    error.source().map_or(error, first_cause)
}
