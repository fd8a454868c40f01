//! `render`: the rules as a payload, without a kernel.
//!
//! Apart because it shares nothing with the daemon but the core: read, render, print.

use super::{log, output, snapshot};
use crate::config::{self, FamilyArg, RenderArgs, environment};
use crate::net::IpFamily;
use crate::render::{Full, Live, Setting};
use crate::rules::Payload;
use crate::telemetry::Format;

/// Prints the full payload of one family.
pub(super) fn render(args: &RenderArgs) -> anyhow::Result<()> {
    let config = config::desired(&args.source, &args.rules, &environment::host_name())?;
    log::install(
        Format::Text,
        0,
        environment::log_filter().or(Some("warn".to_owned())),
    )?;
    let family = match args.family {
        FamilyArg::Ipv4 => IpFamily::V4,
        FamilyArg::Ipv6 => IpFamily::V6,
    };
    let trackers = snapshot::trackers(&config)?;
    let tracker = trackers.get(family);
    let options = snapshot::options(&config, family, tracker)?;
    let zone = tracker.node().and_then(|node| node.zone.as_deref());
    let live = Live::default();
    let setting = Setting {
        options: &options,
        zone,
    };
    let mut payload = Full::new(tracker, setting, &live);
    output::stdout(|out| {
        let mut piece = Vec::new();
        while payload.write_next(&mut piece) {
            out.write_all(&piece)?;
            piece.clear();
        }
        Ok(())
    })
}
