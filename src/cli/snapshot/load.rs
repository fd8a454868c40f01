//! Loads the rules that flags select.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::daemon::HostSources;
use super::rules::{RuleOrigin, RuleSnapshot};
use super::{desired, node, proxy_report, recorded};
use crate::cli::arguments::{self, RuleSettings};
use crate::cli::daemon;
use crate::cli::exit::{ErrorReport, NotANode};
use crate::cli::status::StatusPage;
use crate::config::{OriginArgs, Unusable};
use crate::host::RunError;

impl RuleSnapshot {
    /// Loads the rules that the flags select; `settings` are those of the same flags.
    pub(in crate::cli) fn load(
        args: &OriginArgs,
        settings: &RuleSettings<'_>,
        report: &ErrorReport,
    ) -> anyhow::Result<Self> {
        let OriginArgs {
            from_save, desired, ..
        } = args;
        if let (Some(at), Some(folder)) = (args.at, &args.state_dir) {
            return Self::past(folder, arguments::moment(at));
        }
        if let Some(node) = &args.node.name {
            return node::snapshot(settings.api_options()?, node, report);
        }
        if desired.names_objects() {
            let config = settings.rendering()?;
            return desired::snapshot(&config.read_once(&desired.request), report);
        }
        let sources = || {
            Ok(HostSources {
                daemon: settings.daemon(&args.daemon)?.filter(|_| !args.kernel),
                backend: settings.rendering()?.backend,
            })
        };
        let snapshot = Self::of_host(from_save, sources, report);
        let mut snapshot = snapshot.map_err(not_readable)?;
        if !args.kernel && snapshot.is_of_no_node() {
            return Err(NotANode::Rules.into());
        }
        if let RuleOrigin::Live(_) = snapshot.origin
            && let Some(address) = settings.daemon(&args.daemon)?
            && let Ok(page) = daemon::get(address, "/status")
            && let Ok(page) = StatusPage::parse(page)
        {
            let families = page.document.families.iter();
            (snapshot.conflicts, snapshot.quarantined) = proxy_report::of_daemon(families);
        }
        Ok(snapshot)
    }

    /// Loads the rules of a host: those of dumps, or without any, those of this node.
    pub(in crate::cli) fn of_host(
        from_save: &[PathBuf],
        sources: impl FnOnce() -> Result<HostSources, Unusable>,
        report: &ErrorReport,
    ) -> anyhow::Result<Self> {
        if from_save.is_empty() {
            sources()?.read()
        } else {
            recorded::saved(from_save, report)
        }
    }
}

/// Converts an error of reading the kernel, for commands that read other nodes as well.
fn not_readable(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(RunError::Spawn { program, cause }) if cause.kind() == ErrorKind::NotFound => {
            NotANode::Programs { program, cause }.into()
        }
        Ok(error) => anyhow::anyhow!(
            "{error}\n\
             hint: use --from-save FILE to read a dump without root, or --node NAME to read a node \
             from another machine"
        ),
        Err(error) => error,
    }
}
