//! `explain`: shows what happens to packets to an address or a Service, and why.

mod nodes;
mod single;

use std::process::ExitCode;

use super::exit::{self, ErrorReport};
use crate::config::ExplainArgs;

/// Prints the paths of packets, or the disagreements of all nodes. Returns the exit code.
pub(super) fn explain(args: &ExplainArgs, report: &ErrorReport) -> ExitCode {
    if args.all_nodes {
        exit::compared(nodes::compare_nodes(args, report), report)
    } else {
        exit::code(single::explain_source(args, report), report)
    }
}
