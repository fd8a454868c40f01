//! `services`: lists the Service ports that rules are programmed for, as a table or a document.

mod counters;
mod document;
mod nodes;
mod notes;
mod rows;
mod single;
mod table;

use std::process::ExitCode;

use super::exit::{self, ErrorReport};
use crate::config::ServicesArgs;

/// Prints one line for each service port, with `--problems` for each that is not ok, or the
/// disagreements of all nodes. Returns the exit code.
pub(super) fn services(args: &ServicesArgs, report: &ErrorReport) -> ExitCode {
    if args.all_nodes {
        exit::judged(nodes::compare_nodes(args, report), report)
    } else {
        exit::code(single::list(args, report), report)
    }
}
