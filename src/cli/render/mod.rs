//! `render`: the rules as a payload, without a kernel.
//!
//! Apart because it shares nothing with the daemon but the core: read, render, print.

mod objects;
mod payload;
mod print;

use super::{log, output, snapshot};
use crate::config::{self, FamilyArg, RenderArgs, RenderConfig, Source, environment};
use crate::net::IpFamily;
use crate::tracker::Tracker;

use objects::Objects;
use payload::{full, partial, pieces};
use print::Shown;

/// Prints the payload of one family, or what was asked of it.
pub(super) fn render(args: &RenderArgs) -> anyhow::Result<()> {
    let config = config::desired(&args.source, &args.rules, &environment::host_name())?;
    log::install_quiet()?;
    let family = match args.family {
        FamilyArg::Ipv4 => IpFamily::V4,
        FamilyArg::Ipv6 => IpFamily::V6,
    };
    let since = args
        .since
        .as_ref()
        .map(|_| since(args, &config))
        .transpose()?;
    let wanted = tracker(&config, family)?;
    let options = snapshot::options(&config, family, &wanted)?;
    let before = since.map(|since| tracker(&since, family)).transpose()?;
    let shown = Shown {
        services: &args.services,
        table: args.table.map(Into::into),
        is_annotated: args.annotate,
    };
    if before.is_none() && shown.is_everything() {
        // Not gathered first: it may be large.
        return output::stdout(|out| pieces(&wanted, &options, |piece| Ok(out.write_all(piece)?)));
    }
    let text = match &before {
        Some(before) => partial(before, &wanted, &options, args.partial_restore.into()),
        None => full(&wanted, &options),
    };
    let trackers: Vec<&Tracker> = before.iter().chain([&wanted]).collect();
    let objects = Objects::of(&trackers, &options);
    shown.check_services(&objects)?;
    output::stdout(|out| shown.print(out, &String::from_utf8_lossy(&text), &objects))
}

fn tracker(config: &RenderConfig, family: IpFamily) -> anyhow::Result<Tracker> {
    let trackers = snapshot::trackers(config)?;
    Ok(match family {
        IpFamily::V4 => trackers.v4,
        IpFamily::V6 => trackers.v6,
    })
}

/// The same, with the objects of `--since`.
fn since(args: &RenderArgs, config: &RenderConfig) -> anyhow::Result<RenderConfig> {
    let mut source = args.source.clone();
    source.kubeconfig = None;
    source.master = None;
    source.manifests.clone_from(&args.since);
    let before = config::desired(&source, &args.rules, &environment::host_name())?;
    let is_stdin = |source: &Source| matches!(source, Source::Manifests { path, .. } if path.as_os_str() == "-");
    anyhow::ensure!(
        !(is_stdin(&before.source) && is_stdin(&config.source)),
        "--since and --manifests cannot both read stdin"
    );
    Ok(before)
}
