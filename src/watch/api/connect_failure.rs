//! Texts of failures before there is a response, in place of those of the libraries.

use std::error::Error;
use std::io;
use std::process::Output;

use kube::client::AuthError;
use tokio_rustls::rustls as tls;

/// Cause of a failed connection that an operator handles apart from a server that is down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectFailure {
    /// The credential plugin of the kubeconfig failed.
    #[error("the credential plugin of the kubeconfig failed: {0}")]
    CredentialPlugin(String),
    /// The server has a certificate that the certificate authority of the configuration did not
    /// sign, or of another name, or expired.
    #[error("the certificate of the server is not trusted: {0}")]
    Certificate(String),
}

impl ConnectFailure {
    /// Finds such a cause in an error or its causes.
    pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let found = of_plugin(error).map(Self::CredentialPlugin);
        let found = found.or_else(|| of_certificate(error).map(Self::Certificate));
        found.or_else(|| error.source().and_then(Self::find))
    }
}

fn of_plugin(error: &(dyn Error + 'static)) -> Option<String> {
    match error.downcast_ref()? {
        // The text of the library holds the output as a list of bytes.
        AuthError::AuthExecRun { out, .. } => Some(exit_text(out)),
        AuthError::AuthExecStart(cause) => Some(format!("cannot start it: {cause}")),
        AuthError::AuthExecParse(cause) => Some(format!("its output is not valid: {cause}")),
        _ => None,
    }
}

/// Returns how a program ended, and what it wrote to stderr, on one line.
fn exit_text(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().map(str::trim).collect();
    let text = lines.join("; ");
    match text.trim_matches(&[' ', ';'][..]) {
        "" => output.status.to_string(),
        text => format!("{}: {text}", output.status),
    }
}

fn of_certificate(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(tls::Error::InvalidCertificate(problem)) = error.downcast_ref() {
        return Some(problem.to_string());
    }
    // An `io::Error` is no source of the one around it, but its content.
    let io: &io::Error = error.downcast_ref()?;
    of_certificate(io.get_ref()?)
}
