//! `render`: the rules as a payload, without a kernel.
//!
//! Apart because it shares nothing with the daemon but the core: read, render, print.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{log, output};
use crate::config::{self, FamilyArg, RenderArgs, RenderConfig, Source, environment};
use crate::host::local_addresses;
use crate::model::Change;
use crate::net::{IpFamily, PerFamily};
use crate::render::{Full, Live, Setting};
use crate::rules::Payload;
use crate::telemetry::Format;
use crate::tracker::Tracker;
use crate::watch::api::{self, ApiOptions};
use crate::watch::manifests::{self, ManifestOptions};
use crate::watch::{Observed, Outlet};

/// How long the API server may take to list everything.
const LIST_DEADLINE: Duration = Duration::from_secs(60);

type Changes = PerFamily<Vec<Change>>;

/// Prints the full payload of one family.
pub(super) fn render(args: &RenderArgs) -> anyhow::Result<()> {
    let config = config::render(args, &environment::host_name())?;
    log::install(
        Format::Text,
        0,
        environment::log_filter().or(Some("warn".to_owned())),
    )?;
    let family = match args.family {
        FamilyArg::Ipv4 => IpFamily::V4,
        FamilyArg::Ipv6 => IpFamily::V6,
    };
    let tracker = tracker(changes(&config)?, family);
    let surroundings = config.surroundings.get(family);
    let machine = if surroundings.needs_machine_addresses() {
        local_addresses()?.into_iter().collect()
    } else {
        Vec::new()
    };
    let options = surroundings.options(tracker.node(), &machine);
    let zone = tracker.node().and_then(|node| node.zone.as_deref());
    let live = Live::default();
    let mut payload = Full::new(
        &tracker,
        Setting {
            options: &options,
            zone,
        },
        &live,
    );
    output::stdout(|out| {
        let mut piece = Vec::new();
        while payload.write_next(&mut piece) {
            out.write_all(&piece)?;
            piece.clear();
        }
        Ok(())
    })
}

fn tracker(changes: Changes, family: IpFamily) -> Tracker {
    let mut tracker = Tracker::new(SystemTime::UNIX_EPOCH);
    for (of, changes) in changes.into_pairs() {
        if of == family {
            for change in changes {
                tracker.apply(change);
            }
        }
    }
    tracker
}

fn changes(config: &RenderConfig) -> anyhow::Result<Changes> {
    let node_name: Arc<str> = config.node_name.as_str().into();
    let mut outlet = Outlet::new(Changes::default(), Arc::clone(&node_name));
    match &config.source {
        Source::Manifests {
            path,
            service_cidrs,
        } => {
            let options = ManifestOptions {
                node_name,
                service_ranges: *service_cidrs,
            };
            let manifests = manifests::load(path, &options)?;
            for note in &manifests.notes {
                tracing::warn!("{note}");
            }
            manifests.send(&mut outlet);
        }
        Source::Cluster(options) => list(options, &node_name, &mut outlet)?,
    }
    Ok(outlet.into_sink())
}

fn list(options: &ApiOptions, node: &str, outlet: &mut Outlet<Changes>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let snapshot = runtime.block_on(async {
        let server = api::connect(options).await?;
        anyhow::Ok(api::snapshot(&server, node, LIST_DEADLINE).await?)
    })?;
    let set_services = snapshot.services.objects.iter().map(Observed::Set);
    set_services.for_each(|service| outlet.service(service));
    snapshot
        .slices
        .objects
        .iter()
        .for_each(|slice| outlet.endpoint_slice(Observed::Set(slice)));
    snapshot
        .nodes
        .objects
        .iter()
        .for_each(|node| outlet.node(Observed::Set(node)));
    Ok(())
}
