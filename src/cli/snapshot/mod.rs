//! Rules of both families, from the kernel, from dumps or rendered from objects.
//!
//! `--from-save`, `--manifests` and the default mean the same in `diff`, `explain` and `services`.

mod cluster;
mod desired;
mod dump;
mod missing;
pub(super) mod proxy_report;
mod recorded;
mod rules;

use crate::cli::exit::ErrorReport;
use crate::cli::rule_settings::RuleSettings;
use crate::config::OriginArgs;

pub(super) use desired::{full, manifest_trackers, objects, options};
pub(super) use proxy_report::Conflicts;
pub(super) use recorded::{live, saved};
pub(super) use rules::{RuleOrigin, RuleSnapshot};

impl RuleSnapshot {
    /// Loads the rules that the flags select.
    pub(super) fn load(args: &OriginArgs, report: &ErrorReport) -> anyhow::Result<Self> {
        if !args.from_save.is_empty() {
            return recorded::saved(&args.from_save, report);
        }
        let config = RuleSettings::read(&args.file, &args.rules)?.rendering(&args.source)?;
        if args.names_objects() {
            desired::render(&config.read_once(&args.one_read), report)
        } else {
            let mut snapshot = recorded::live(config.backend)?;
            snapshot.conflicts = proxy_report::conflicts();
            Ok(snapshot)
        }
    }
}
