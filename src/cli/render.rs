//! `render`: prints the rules of objects as a payload, without a kernel.
//!
//! A payload of some Services is for reading: it lacks the rules of other Services in shared
//! chains. It ends without `COMMIT`, so that no restore program takes it for a complete one.

use std::io::Write;

use super::arguments::{RuleSettings, check_stdin, given_once};
use super::exit::ErrorReport;
use super::snapshot::{self, RenderSide};
use super::terminal::{self, Progress};
use crate::config::{RenderArgs, RenderConfig};
use crate::inspect::catalog::PortName;
use crate::inspect::diff::PortSelection;
use crate::net::IpFamily;
use crate::rules::{Rule, RuleSet};
use crate::tracker::Tracker;

/// Prints the payload of one family, or the selected part of it.
pub(super) fn render(args: &RenderArgs, report: &ErrorReport) -> anyhow::Result<()> {
    let selected = args.selection.query()?;
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.desired)?;
    let config = settings.rendering()?.read_once(&args.desired.request);
    let family = args.family;
    let since = given_once("since", &args.since)?;
    let manifests = args.desired.source.manifests.as_deref();
    let manifests = manifests.map(|path| ("manifests", path));
    check_stdin(
        manifests
            .into_iter()
            .chain(since.map(|path| ("since", path))),
    )?;
    let tracker_after = tracker(&config, family, report)?;
    let options = snapshot::options(&config, family, &tracker_after)?;
    let desired = RenderSide {
        tracker: &tracker_after,
        options: &options,
    };
    let before = since.map(|path| {
        let mut source = args.desired.source.clone();
        // Manifests take the place of any other source.
        source.manifests = Some(path.to_owned());
        let config = settings.rendering_of(&source)?;
        tracker(&config.read_once(&args.desired.request), family, report)
    });
    let before = before.transpose()?;
    let _progress = Progress::start("rendering");
    let text = match &before {
        Some(tracker) => {
            let options = &snapshot::options(&config, family, tracker)?;
            let before = RenderSide { tracker, options };
            let (text, reason) = desired.after(before, args.partial_restore)?;
            if let Some(why) = reason {
                tracing::warn!("a full restore is required: {}", why.as_str());
            }
            text
        }
        None => desired.full(&RuleSet::default()),
    };
    if selected.is_all() {
        return terminal::print(text);
    }
    let trackers = before.iter().chain([&tracker_after]);
    let options = &options;
    let rules = trackers.map(|tracker| Ok(RenderSide { tracker, options }.rules()?.0));
    let rules: Vec<RuleSet> = rules.collect::<anyhow::Result<_>>()?;
    let selection = PortSelection::of(&selected, &rules.iter().collect::<Vec<_>>())?;
    terminal::stdout(|out| print(out, &String::from_utf8_lossy(&text), &selection))
}

fn tracker(
    config: &RenderConfig,
    family: IpFamily,
    report: &ErrorReport,
) -> anyhow::Result<Tracker> {
    let trackers = snapshot::read_objects(config, Some(report))?.0;
    Ok(match family {
        IpFamily::V4 => trackers.v4,
        IpFamily::V6 => trackers.v6,
    })
}

/// Prints the lines of a payload about selected service ports. The table is printed before its
/// first one.
fn print(out: &mut dyn Write, payload: &str, selection: &PortSelection) -> anyhow::Result<()> {
    let mut table = None;
    for line in payload.lines() {
        if line.starts_with('*') {
            table = Some(line);
        } else if is_selected(line, selection) {
            if let Some(table) = table.take() {
                writeln!(out, "{table}")?;
            }
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Reports whether a line declares, deletes or adds to a chain of selected service ports, or adds
/// one of their rules to a chain that all Services share.
fn is_selected(line: &str, selection: &PortSelection) -> bool {
    let words = match line.strip_prefix(':') {
        Some(declaration) => declaration,
        None => match line.split_once(' ') {
            Some((command, words)) if command.starts_with('-') => words,
            _ => return false,
        },
    };
    let (chain, rule) = words.split_once(' ').unwrap_or((words, ""));
    let is_dispatch_rule = |rule: &Rule| {
        let port = PortName::of_dispatch_rule(rule);
        port.is_some_and(|(port, _)| selection.has_port(&port))
    };
    selection.has_chain(chain) || rule.parse().is_ok_and(|rule| is_dispatch_rule(&rule))
}
