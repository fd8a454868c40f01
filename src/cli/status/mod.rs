//! `status`: shows the state of the daemon on this node, the worst first.

mod screen;

use std::net::SocketAddr;

use super::arguments::{daemon_address, read_file};
use super::daemon;
use super::terminal::{self, escaped};
use crate::config::{OutputArg, StatusArgs};
use crate::status::StatusDocument;

/// Prints the state. Returns whether the node is well.
///
/// # Errors
///
/// No daemon answers.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<bool> {
    terminal::install_quiet_log()?;
    let file = args.config.as_deref().map(read_file).transpose()?;
    let Some(address) = daemon_address(file.as_ref(), &args.daemon)? else {
        anyhow::bail!(
            "the metrics port of the daemon is disabled\n\
             hint: set --metrics-bind-address of `run` to an address"
        );
    };
    let page = daemon::get(address, "/status").map_err(|reason| no_state(address, &reason))?;
    let document = read(&page).map_err(|reason| no_state(address, reason))?;
    let text = match args.output {
        OutputArg::Json => escaped(&page),
        OutputArg::Text => screen::text(&document).into(),
    };
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(document.is_well())
}

/// Parses the page. Each field of the document is optional; without a version, the page is that of
/// another program.
fn read(page: &str) -> Result<StatusDocument, &'static str> {
    let document: Result<StatusDocument, _> = daemon::document(page);
    let document = document.ok().filter(|found| !found.version.is_empty());
    document.ok_or("the page is not of deltaproxy")
}

fn no_state(address: SocketAddr, reason: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!(
        "no state of deltaproxy at {address}: {reason}\n\
         hint: check that deltaproxy runs on this node, and not kube-proxy; if its metrics port is \
         another one, set --metrics-bind-address"
    )
}
