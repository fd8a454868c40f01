//! `render`: the rules as a payload, without a kernel.
//!
//! Apart because it shares nothing with the daemon but the core: read, render, print.

mod objects;
mod payload;
mod print;
mod since;

use super::file::Shape;
use super::restore::Side;
use super::{log, names, output, snapshot};
use crate::config::{RenderArgs, RenderConfig};
use crate::net::IpFamily;
use crate::rules::RuleSet;
use crate::tracker::Tracker;

use objects::Objects;
use payload::{full, next, pieces};
use print::Shown;
use since::since;

/// Prints the payload of one family, or what was asked of it.
pub(super) fn render(args: &RenderArgs) -> anyhow::Result<()> {
    let asked = args.which.asked()?;
    log::install_quiet()?;
    let shape = Shape::read(&args.file, &args.rules)?;
    let config = shape.desired(&args.source)?;
    if let Some(what) = args.names.only {
        let snapshot = snapshot::desired(&config)?;
        return names::print(&snapshot, what, args.which.namespace.as_deref());
    }
    let family = args.family.into();
    let since = args
        .since
        .as_ref()
        .map(|_| since(args, &shape, &config))
        .transpose()?;
    let wanted = tracker(&config, family)?;
    let options = snapshot::options(&config, family, &wanted)?;
    let wanted_side = Side {
        tracker: &wanted,
        options: &options,
    };
    let before = since.map(|since| tracker(&since, family)).transpose()?;
    let shown = Shown {
        asked: &asked,
        table: args.table.map(Into::into),
        is_annotated: args.annotate,
    };
    if before.is_none() && shown.is_everything() {
        // Not gathered first: it may be large.
        return output::stdout(|out| pieces(wanted_side, |piece| Ok(out.write_all(piece)?)));
    }
    let text = match &before {
        Some(tracker) => {
            let options = snapshot::options(&config, family, tracker)?;
            let options = &options;
            next(
                Side { tracker, options },
                wanted_side,
                args.partial_restore.into(),
            )?
        }
        None => full(wanted_side, &RuleSet::default())?,
    };
    let trackers: Vec<&Tracker> = before.iter().chain([&wanted]).collect();
    let objects = Objects::of(&trackers, &options);
    shown.check_services(&objects, &config)?;
    output::stdout(|out| shown.print(out, &String::from_utf8_lossy(&text), &objects))
}

fn tracker(config: &RenderConfig, family: IpFamily) -> anyhow::Result<Tracker> {
    let trackers = snapshot::trackers(config)?;
    Ok(match family {
        IpFamily::V4 => trackers.v4,
        IpFamily::V6 => trackers.v6,
    })
}
