//! Desired rules for the host that the live rules were read from.
//!
//! Unlike a [snapshot](super::super::snapshot), which renders for no host in particular, it adopts
//! facts from the live rules that only the host knows.

use std::net::{IpAddr, Ipv4Addr};

use super::super::restore::RenderSide;
use super::super::rule_settings::RuleSettings;
use super::super::snapshot::{self, RuleOrigin, RuleSnapshot};
use crate::config::{DiffArgs, RenderConfig, Source};
use crate::inspect::diff::{HostSettings, InvalidPacketHandling};
use crate::net::{IpFamily, PerFamily};
use crate::render::{Counter, Options};
use crate::tracker::Tracker;
use crate::watch::manifests::Manifests;

/// Objects and render options of both families.
pub(super) struct Desired {
    pub(super) trackers: PerFamily<Tracker>,
    pub(super) options: PerFamily<Options>,
}

impl Desired {
    /// Takes objects that were read before, for an unknown host.
    pub(super) fn of_manifests(
        config: &RenderConfig,
        manifests: Manifests,
    ) -> anyhow::Result<Self> {
        let trackers = snapshot::manifest_trackers(config, manifests);
        Self::new(config, trackers, &RuleSnapshot::default())
    }

    /// Loads objects for the host whose rules are in a snapshot. Any error of manifests is
    /// returned, as a missing object would be a difference.
    pub(super) fn for_host(
        settings: &RuleSettings<'_>,
        args: &DiffArgs,
        host: &RuleSnapshot,
    ) -> anyhow::Result<Self> {
        let config = settings.rendering(&args.source)?;
        let config = config.with_request_timeout(&args.one_read);
        let objects = snapshot::objects(&config, None)?;
        check_node(&config, &objects.trackers)?;
        Self::new(&config, objects.trackers, host)
    }

    fn new(
        config: &RenderConfig,
        trackers: PerFamily<Tracker>,
        host: &RuleSnapshot,
    ) -> anyhow::Result<Self> {
        let mut options = PerFamily::from_fn(Options::defaults);
        for family in IpFamily::ALL {
            let of_family = options.get_mut(family);
            *of_family = resolve(config, family, trackers.get(family), host)?;
            if let Some(facts) = HostSettings::read(host.rules.get(family)) {
                adopt(of_family, facts);
            }
            if let RuleOrigin::Live(backend) = host.origin {
                of_family.backend = backend;
            }
        }
        Ok(Self { trackers, options })
    }

    pub(super) fn side(&self, family: IpFamily) -> RenderSide<'_> {
        RenderSide {
            tracker: self.trackers.get(family),
            options: self.options.get(family),
        }
    }
}

/// Checks that the node exists. Without its Node object, local endpoints, zones and primary
/// addresses would all differ.
fn check_node(config: &RenderConfig, trackers: &PerFamily<Tracker>) -> anyhow::Result<()> {
    let is_cluster = matches!(config.source, Source::Cluster(_));
    anyhow::ensure!(
        !is_cluster || trackers.v4.node().is_some(),
        "node `{}` is not in the cluster\n\
         hint: set --hostname-override to the node that these rules are of",
        config.node_name
    );
    Ok(())
}

/// Returns the render options. A dump is of another host, of whose addresses only those in its
/// Node are known.
fn resolve(
    config: &RenderConfig,
    family: IpFamily,
    tracker: &Tracker,
    host: &RuleSnapshot,
) -> anyhow::Result<Options> {
    if !matches!(host.origin, RuleOrigin::Saved(_)) {
        return snapshot::options(config, family, tracker);
    }
    let node = tracker.node();
    let mut addresses: Vec<IpAddr> = node.map(|node| node.addresses.clone()).unwrap_or_default();
    addresses.push(Ipv4Addr::LOCALHOST.into());
    addresses.retain(|ip| IpFamily::of(*ip) == family);
    Ok(config.render_settings.get(family).options(node, &addresses))
}

fn adopt(options: &mut Options, facts: HostSettings) {
    options.masquerade.is_random_fully = facts.is_random_fully;
    options.drops_invalid_packets = facts.invalid != InvalidPacketHandling::Forwarded;
    options.counters.clear();
    if facts.invalid == InvalidPacketHandling::Counted {
        options.counters.insert(Counter::InvalidDropped);
    }
    if facts.counts_localhost {
        options.counters.insert(Counter::LocalhostNodePorts);
    }
}
