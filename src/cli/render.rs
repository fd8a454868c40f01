//! `render`: prints the rules of objects as a payload, without a kernel.

use std::path::Path;

use super::exit::ErrorReport;
use super::payload_filter::{PayloadFilter, RuleObjects};
use super::restore::{NextRestore, RenderSide};
use super::rule_settings::{RuleSettings, given_once};
use super::{snapshot, terminal};
use crate::config::{RenderArgs, RenderConfig, Source, Unusable};
use crate::net::IpFamily;
use crate::render::PartialRestore;
use crate::rules::RuleSet;
use crate::tracker::Tracker;

/// Prints the payload of one family, or the selected part of it.
pub(super) fn render(args: &RenderArgs, report: &ErrorReport) -> anyhow::Result<()> {
    let selected = args.selection.query()?;
    terminal::install_quiet_log()?;
    let settings = RuleSettings::read(&args.file, &args.rules)?;
    let config = settings.rendering(&args.source)?.read_once(&args.one_read);
    let family = args.family;
    let since = given_once("since", &args.since)?;
    let since = since
        .map(|path| since_config(path, args, &settings, &config))
        .transpose()?;
    let tracker_after = tracker(&config, family, report)?;
    let options = snapshot::options(&config, family, &tracker_after)?;
    let desired = RenderSide {
        tracker: &tracker_after,
        options: &options,
    };
    let before = since
        .map(|since| tracker(&since, family, report))
        .transpose()?;
    let filter = PayloadFilter {
        selected: &selected,
        is_annotated: args.annotate,
    };
    if before.is_none() && filter.is_everything() {
        // Written in pieces, because it may be large.
        return terminal::stdout(|out| pieces(desired, |piece| Ok(out.write_all(piece)?)));
    }
    let text = match &before {
        Some(tracker) => {
            let options = snapshot::options(&config, family, tracker)?;
            let options = &options;
            next(
                RenderSide { tracker, options },
                desired,
                args.partial_restore,
            )?
        }
        None => full(desired, &RuleSet::default())?,
    };
    let trackers: Vec<&Tracker> = before.iter().chain([&tracker_after]).collect();
    let objects = RuleObjects::of(&trackers, &options);
    filter.check_services(&objects)?;
    terminal::stdout(|out| filter.print(out, &String::from_utf8_lossy(&text), &objects))
}

fn tracker(
    config: &RenderConfig,
    family: IpFamily,
    report: &ErrorReport,
) -> anyhow::Result<Tracker> {
    let trackers = snapshot::objects(config, Some(report))?.trackers;
    Ok(match family {
        IpFamily::V4 => trackers.v4,
        IpFamily::V6 => trackers.v6,
    })
}

/// Returns the configuration with the objects of `--since`, the state that a partial payload leads
/// from.
fn since_config(
    path: &Path,
    args: &RenderArgs,
    settings: &RuleSettings<'_>,
    config: &RenderConfig,
) -> anyhow::Result<RenderConfig> {
    let mut source = args.source.clone();
    // Manifests take the place of any other source.
    source.manifests = Some(path.to_owned());
    let before = settings.rendering(&source)?.read_once(&args.one_read);
    let is_stdin = |source: &Source| matches!(source, Source::Manifests { path, .. } if path.as_os_str() == "-");
    if is_stdin(&before.source) && is_stdin(&config.source) {
        let problem = "cannot read stdin, which --manifests reads".to_owned();
        return Err(Unusable::of_flag("since", problem).into());
    }
    Ok(before)
}

/// Renders the full payload for a kernel without rules, piece by piece.
fn pieces(
    side: RenderSide<'_>,
    take: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    side.full(&RuleSet::default(), take).map(|_| ())
}

/// Renders the full payload for a kernel with the `live` rules.
fn full(side: RenderSide<'_>, live: &RuleSet) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    side.full(live, |piece| {
        text.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(text)
}

/// Renders the payload that the daemon would restore if the cluster changed from `before` to
/// `after` between two syncs: a full one, if it has to.
fn next(
    before: RenderSide<'_>,
    after: RenderSide<'_>,
    partial_restore: PartialRestore,
) -> anyhow::Result<Vec<u8>> {
    let (live, ledger) = before.rules()?;
    match after.after(before, ledger, partial_restore) {
        NextRestore::Full(why) => {
            tracing::warn!("a full restore is required: {}", why.as_str());
            full(after, &live)
        }
        NextRestore::Partial(_, partial) => Ok(partial.text),
    }
}
