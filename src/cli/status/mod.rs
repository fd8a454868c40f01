//! `status`: shows the state of the daemon on this node, the worst first; or on another one, or on
//! all nodes of a cluster. `shadow-report` does the same for daemons in shadow mode.

mod nodes;
mod screen;
mod shadow_report;
mod source;

pub(super) use shadow_report::of_shadow;
pub(super) use source::StatusPage;

use super::terminal::{self, escaped};
use crate::config::{OutputArg, StatusArgs};

/// Prints the state. Returns whether the node is well.
///
/// # Errors
///
/// No daemon answers; of all nodes, some do not.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<bool> {
    terminal::install_quiet_log()?;
    if args.all_nodes {
        return nodes::all_nodes(args);
    }
    let page = match &args.node.name {
        Some(node) => source::page_of_node(args, node)?,
        None => source::page_here(args)?,
    };
    let document = &page.document;
    let text = match args.output.format {
        OutputArg::Json => escaped(&page.text),
        OutputArg::Text => screen::text(document).into(),
    };
    terminal::print(&*text)?;
    Ok(document.is_well())
}
