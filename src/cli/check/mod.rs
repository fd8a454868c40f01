//! `check`: examines whether this node and its cluster have what the daemon needs, and what would
//! get in its way.

mod cluster;
mod daemon;
mod kernel;
mod network;
mod programs;
mod report;

use self::report::CheckReport;
use super::terminal;
use crate::cli::runtime::runtime;
use crate::config::{CheckArgs, OutputArg};
use crate::host::BackendChoice;
use crate::sync::SyncMode;

/// Examines all, and prints the results. Returns whether nothing failed.
///
/// # Errors
///
/// Flags or output. What is wrong with the node or the cluster is a result.
pub(super) fn check(args: &CheckArgs) -> anyhow::Result<bool> {
    terminal::install_quiet_log()?;
    let report = examine(args)?;
    terminal::print(match args.output.format {
        OutputArg::Json => report.json(),
        OutputArg::Text => report.text(),
    })?;
    Ok(report.is_passed())
}

fn examine(args: &CheckArgs) -> anyhow::Result<CheckReport> {
    let (configuration, config) = daemon::configuration(args);
    let mut groups = vec![configuration];
    let runtime = runtime()?;
    let used = config
        .as_ref()
        .map(|config| (config.rules.backend, config.mode));
    let (choice, mode) = used.unwrap_or((BackendChoice::default(), SyncMode::Restore));
    let (programs, binaries) = runtime.block_on(programs::examine(choice, mode));
    groups.push(programs);
    groups.push(kernel::examine(&binaries));
    groups.push(runtime.block_on(network::examine(&binaries)));
    drop(runtime);
    if let Some(config) = config {
        groups.push(cluster::examine(&config));
        if !args.pre {
            groups.push(daemon::running(config.serving.metrics));
        }
    }
    Ok(CheckReport::new(groups))
}
