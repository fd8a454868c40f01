//! What would be written to the machine that the other side was read from.
//!
//! Apart from the [snapshot](super::super::snapshot), which renders for no machine in particular:
//! here facts that only the machine knows are taken from its rules.

use std::net::{IpAddr, Ipv4Addr};

use super::super::file::Shape;
use super::super::restore::Side;
use super::super::snapshot::{self, Origin, Snapshot};
use crate::config::{RenderConfig, Source, SourceArgs};
use crate::inspect::diff::{HostSettings, InvalidPacketHandling};
use crate::net::{IpFamily, PerFamily};
use crate::render::{Counter, Counters, InvalidPackets, Options};
use crate::tracker::Tracker;

/// Objects, and what shapes their rules.
pub(super) struct Desired {
    pub(super) trackers: PerFamily<Tracker>,
    pub(super) options: PerFamily<Options>,
}

impl Desired {
    /// For a machine of which nothing is known.
    pub(super) fn load(shape: &Shape<'_>, source: &SourceArgs) -> anyhow::Result<Self> {
        Self::for_machine(shape, source, &Snapshot::default())
    }

    /// For the machine whose rules the snapshot holds.
    pub(super) fn for_machine(
        shape: &Shape<'_>,
        source: &SourceArgs,
        machine: &Snapshot,
    ) -> anyhow::Result<Self> {
        let config = shape.desired(source)?;
        let trackers = snapshot::trackers(&config)?;
        check_node(&config, &trackers)?;
        let mut options = PerFamily::from_fn(Options::defaults);
        for family in IpFamily::ALL {
            let of_family = options.get_mut(family);
            *of_family = resolve(&config, family, trackers.get(family), machine)?;
            if let Some(facts) = HostSettings::read(machine.rules.get(family)) {
                adopt(of_family, facts);
            }
            if let Origin::Live(backend) = machine.origin {
                of_family.backend = backend;
            }
        }
        Ok(Self { trackers, options })
    }

    pub(super) fn side(&self, family: IpFamily) -> Side<'_> {
        Side {
            tracker: self.trackers.get(family),
            options: self.options.get(family),
        }
    }
}

/// Without its Node, everything local looks different, and so do zones and primary addresses.
fn check_node(config: &RenderConfig, trackers: &PerFamily<Tracker>) -> anyhow::Result<()> {
    let is_cluster = matches!(config.source, Source::Cluster(_));
    anyhow::ensure!(
        !is_cluster || trackers.v4.node().is_some(),
        "node `{}` is not in the cluster\n\
         hint: name the node whose rules these are with --hostname-override",
        config.node_name
    );
    Ok(())
}

/// A dump's machine is elsewhere: of its addresses only those are known that its Node has.
fn resolve(
    config: &RenderConfig,
    family: IpFamily,
    tracker: &Tracker,
    machine: &Snapshot,
) -> anyhow::Result<Options> {
    if !matches!(machine.origin, Origin::Saved(_)) {
        return snapshot::options(config, family, tracker);
    }
    let node = tracker.node();
    let mut addresses: Vec<IpAddr> = node.map(|node| node.addresses.clone()).unwrap_or_default();
    addresses.push(Ipv4Addr::LOCALHOST.into());
    addresses.retain(|ip| IpFamily::of(*ip) == family);
    Ok(config.surroundings.get(family).options(node, &addresses))
}

fn adopt(options: &mut Options, machine: HostSettings) {
    options.masquerade.is_random_fully = machine.is_random_fully;
    options.invalid_packets = match machine.invalid {
        InvalidPacketHandling::Forwarded => InvalidPackets::Forwarded,
        InvalidPacketHandling::Dropped | InvalidPacketHandling::Counted => InvalidPackets::Dropped,
    };
    options.counters = Counters::NONE;
    if machine.invalid == InvalidPacketHandling::Counted {
        options.counters.add(Counter::InvalidDropped);
    }
    if machine.counts_localhost {
        options.counters.add(Counter::LocalhostNodePorts);
    }
}
