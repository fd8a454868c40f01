//! Loads both sides of a comparison.
//!
//! The live side comes from the kernel, another node, a dump, older objects or a past moment.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use super::super::arguments::{self, RuleSettings, check_stdin, given_once};
use super::super::snapshot::{self, RenderSide, RuleOrigin, RuleSnapshot};
use super::super::terminal::{Progress, escaped};
use super::sides::Sides;
use crate::config::{DiffArgs, PastTime, RenderConfig, Source, SourceArgs, Unusable};
use crate::host::RunError;
use crate::inspect::diff::{HostSettings, InvalidPacketHandling};
use crate::net::{IpFamily, PerFamily};
use crate::render::{Counter, Options};
use crate::rules::RuleSet;
use crate::ruleset::flattened;
use crate::tracker::Tracker;
use crate::watch::manifests::{self, Manifests};

/// Loads both sides as the flags select them.
pub(super) fn load(args: &DiffArgs, settings: &RuleSettings<'_>) -> anyhow::Result<Sides> {
    let saved = args.from_save.iter().map(|path| ("from-save", &**path));
    let before = args.from_manifests.iter();
    let before = before.map(|path| ("from-manifests", &**path));
    let after = args.desired.source.manifests.as_deref();
    check_stdin(
        saved
            .chain(before)
            .chain(after.map(|path| ("manifests", path))),
    )?;
    if let (Some(folder), moments) = (&args.state_dir, &args.at[..]) {
        return of_moments(folder, moments);
    }
    match given_once("from-manifests", &args.from_manifests)? {
        Some(path) => of_manifests(args, settings, path),
        None => of_host(args, settings),
    }
}

/// Loads the rules of this node, of another one or of a dump, and the objects to compare them with.
fn of_host(args: &DiffArgs, settings: &RuleSettings<'_>) -> anyhow::Result<Sides> {
    let host = match &args.node {
        Some(node) => snapshot::of_node(settings.api_options()?, node)?,
        // A comparison verifies the daemon as well.
        None => RuleSnapshot::of_host(&args.from_save, None, settings).map_err(not_readable)?,
    };
    // Before any problem of the objects, which may be due to it.
    if let Some(absence) = host.absence() {
        tracing::warn!("{}", escaped(&absence));
    }
    let mut config = settings
        .rendering()?
        .with_request_timeout(&args.desired.request);
    if let Some(node) = &args.node {
        config.node_name.clone_from(node);
    }
    // Any error of manifests is returned, as a missing object would be a difference.
    let trackers = snapshot::read_objects(&config, None)?.0;
    check_node(&config, &trackers)?;
    let _progress = Progress::start("rendering");
    let desired = Desired::new(&config, trackers, &host)?;
    let names = [host.origin.to_string(), name_of(&args.desired.source)];
    let mut right = PerFamily::<RuleSet>::default();
    for family in host.families.iter().copied() {
        let missing = host.missing_tables.get(family);
        let missing = missing | host.unreadable_tables.get(family);
        let right = right.get_mut(family);
        *right = desired.rules(family)?;
        for table in &missing {
            right.clear(*table);
        }
    }
    Ok(Sides {
        absence_reason: match host.origin {
            RuleOrigin::Saved(_) => "no dump of it was given",
            _ if args.node.is_some() => "the node has no rules of it",
            _ => "this kernel does not support it",
        },
        right: right.map(|_, rules| flattened(rules)),
        live: RuleSnapshot {
            rules: host.rules.map(|_, rules| flattened(rules)),
            ..host
        },
        names,
        ..Sides::default()
    })
}

fn of_moments(folder: &Path, moments: &[PastTime]) -> anyhow::Result<Sides> {
    let [before, after] = moments else {
        let problem = "must be given twice: the rules of the first moment are compared with those \
                       of the second";
        return Err(Unusable::of_flag("at", problem.to_owned()).into());
    };
    let [left, right] =
        [before, after].map(|at| RuleSnapshot::past(folder, arguments::moment(*at)));
    let (left, right) = (left?, right?);
    Ok(Sides {
        absence_reason: "the history does not have it at both moments",
        names: [left.origin.to_string(), right.origin.to_string()],
        live: RuleSnapshot {
            families: &left.families & &right.families,
            rules: left.rules.map(|_, rules| flattened(rules)),
            ..left
        },
        right: right.rules.map(|_, rules| flattened(rules)),
        ..Sides::default()
    })
}

/// Adds a hint to an error of reading the kernel.
fn not_readable(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        // It has a hint of its own.
        Ok(error @ RunError::Spawn { .. }) => error.into(),
        Ok(error) => {
            anyhow::anyhow!("{error}\nhint: use --from-save FILE to compare a dump without root")
        }
        Err(error) => error,
    }
}

/// Loads two sets of objects.
fn of_manifests(
    args: &DiffArgs,
    settings: &RuleSettings<'_>,
    before: &Path,
) -> anyhow::Result<Sides> {
    let config = settings.rendering()?.read_once(&args.desired.request);
    let Source::Manifests {
        path, validation, ..
    } = &config.source
    else {
        anyhow::bail!("--from-manifests requires --manifests");
    };
    let options = config.manifest_options();
    let names = [
        format!("`{}`", before.display()),
        name_of(&args.desired.source),
    ];
    let _progress = Progress::start("reading and rendering manifests");
    let load = |path| manifests::load_compared(path, &options, *validation);
    let (before, written_before) = load(before)?;
    let (after, written_after) = load(path)?;
    let assumed = [&before.assumptions[..], &after.assumptions].concat();
    let assumptions = manifests::assumption_lines(&assumed);
    let desired = |manifests: &Manifests| {
        let trackers = snapshot::manifest_trackers(&config, manifests);
        Desired::new(&config, trackers, &RuleSnapshot::default())
    };
    let (before, after) = (desired(&before)?, desired(&after)?);
    let mut left = PerFamily::<RuleSet>::default();
    let mut right = PerFamily::<RuleSet>::default();
    for family in IpFamily::ALL {
        *left.get_mut(family) = before.rules(family)?;
        *right.get_mut(family) = after.rules(family)?;
    }
    Ok(Sides {
        live: RuleSnapshot {
            families: IpFamily::ALL.into(),
            rules: left.map(|_, rules| flattened(rules)),
            ..RuleSnapshot::default()
        },
        right: right.map(|_, rules| flattened(rules)),
        names,
        written: [written_before, written_after],
        assumptions,
        ..Sides::default()
    })
}

fn name_of(source: &SourceArgs) -> String {
    match &source.manifests {
        Some(path) => format!("`{}`", path.display()),
        None => "the cluster".to_owned(),
    }
}

/// Objects and render options of both families, for the host that the live rules were read from:
/// facts that only the host knows are adopted from its rules.
struct Desired {
    trackers: PerFamily<Tracker>,
    options: PerFamily<Options>,
}

impl Desired {
    /// Takes the facts of the host whose rules are in a snapshot; by default it is unknown.
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
        }
        Ok(Self { trackers, options })
    }

    fn rules(&self, family: IpFamily) -> anyhow::Result<RuleSet> {
        let side = RenderSide {
            tracker: self.trackers.get(family),
            options: self.options.get(family),
        };
        Ok(side.rules()?.0)
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

/// Returns the render options. Of another host than this one, only the addresses in its Node are
/// known.
fn resolve(
    config: &RenderConfig,
    family: IpFamily,
    tracker: &Tracker,
    host: &RuleSnapshot,
) -> anyhow::Result<Options> {
    if !host.origin.is_of_another_host() {
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
