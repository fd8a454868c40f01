//! `render`: prints the rules of objects as a payload, without a kernel.
//!
//! A payload of some Services is for reading: it lacks the rules of other Services in shared
//! chains. It ends without `COMMIT`, so that no restore program takes it for a complete one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::net::IpAddr;

use super::arguments::{RuleSettings, check_stdin, given_once};
use super::exit::ErrorReport;
use super::snapshot::{self, NextRestore, RenderSide};
use super::terminal::{self, Progress};
use crate::config::{RenderArgs, RenderConfig};
use crate::inspect::catalog::{Catalog, NoMatches, PortName, PortQuery, UnknownRules};
use crate::model::{ServiceName, Services, SliceName};
use crate::net::IpFamily;
use crate::render::{Options, PartialRestore};
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
    let filter = PayloadFilter {
        selected: &selected,
        is_annotated: args.annotate,
    };
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
    if before.is_none() && filter.is_everything() {
        return terminal::print(text);
    }
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
    let trackers = snapshot::read_objects(config, Some(report))?.0;
    Ok(match family {
        IpFamily::V4 => trackers.v4,
        IpFamily::V6 => trackers.v6,
    })
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

/// Selection of the lines that are printed.
pub(super) struct PayloadFilter<'a> {
    pub(super) selected: &'a PortQuery,
    pub(super) is_annotated: bool,
}

impl PayloadFilter<'_> {
    /// Reports whether the payload is printed unchanged.
    pub(super) fn is_everything(&self) -> bool {
        self.selected.is_all() && !self.is_annotated
    }

    /// Checks that every Service that was named exists.
    pub(super) fn check_services(&self, objects: &RuleObjects) -> Result<(), NoMatches> {
        let ports = objects.ports.iter();
        let ports = ports.map(|(port, numbers)| (port, numbers.iter().copied()));
        self.selected.check(&ports, UnknownRules::default())
    }

    /// Prints the selected lines.
    pub(super) fn print(
        &self,
        out: &mut dyn Write,
        payload: &str,
        objects: &RuleObjects,
    ) -> anyhow::Result<()> {
        let mut table = None;
        let mut last: Option<RuleObject> = None;
        for line in payload.lines() {
            if line.starts_with('*') {
                (table, last) = (Some(line), None);
                continue;
            }
            let object = objects.of_line(line);
            if !self.shows(object.as_ref(), objects) {
                continue;
            }
            // The table is printed before its first selected line.
            if let Some(table) = table.take() {
                writeln!(out, "{table}")?;
            }
            match &object {
                Some(own) if self.is_annotated && object != last => writeln!(out, "# {own}")?,
                _ => {}
            }
            writeln!(out, "{line}")?;
            last = object;
        }
        Ok(())
    }

    fn shows(&self, object: Option<&RuleObject>, objects: &RuleObjects) -> bool {
        let is_selected = |object: &RuleObject| {
            let (port, numbers) = (object.port(), objects.numbers(object.port()));
            self.selected.fits(port, &numbers)
        };
        self.selected.is_all() || object.is_some_and(is_selected)
    }
}

/// Object that a chain or rule is rendered from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RuleObject {
    Service(PortName),
    /// Endpoint of a Service's port, and the slices that contain it.
    Endpoint(PortName, IpAddr, BTreeSet<SliceName>),
}

impl RuleObject {
    fn port(&self) -> &PortName {
        match self {
            Self::Service(port) | Self::Endpoint(port, ..) => port,
        }
    }
}

impl fmt::Display for RuleObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port();
        match self {
            Self::Service(_) => write!(f, "Service {}/{}", port.namespace(), port.service())?,
            Self::Endpoint(_, ip, slices) => {
                write!(f, "EndpointSlice")?;
                for slice in slices {
                    write!(f, " {slice}")?;
                }
                write!(f, ", endpoint {ip}")?;
            }
        }
        match port.port() {
            "" => write!(f, ", port {}", port.protocol),
            name => write!(f, ", port {name}/{}", port.protocol),
        }
    }
}

/// Objects of every chain.
pub(super) struct RuleObjects {
    chains: BTreeMap<Box<str>, RuleObject>,
    ports: BTreeMap<PortName, BTreeSet<u16>>,
}

impl RuleObjects {
    /// Collects the objects of the states of the cluster that a payload leads from and to.
    pub(super) fn of(trackers: &[&Tracker], options: &Options) -> Self {
        let mut objects = Self {
            chains: BTreeMap::new(),
            ports: BTreeMap::new(),
        };
        for tracker in trackers {
            // Our payloads always apply to an empty ruleset; a test applies thousands.
            if let Ok((rules, _)) = (RenderSide { tracker, options }).rules() {
                objects.add(tracker, Catalog::read(&rules));
            }
        }
        objects
    }

    fn add(&mut self, tracker: &Tracker, catalog: Catalog) {
        for (port, view) in catalog.ports {
            let numbers = self.ports.entry(port.clone()).or_default();
            numbers.extend(view.numbers());
            for chain in view.chains {
                self.chains.insert(chain, RuleObject::Service(port.clone()));
            }
            for endpoint in view.endpoints {
                let ip = endpoint.address.ip();
                let slices = slices(tracker, &port, ip);
                let object = RuleObject::Endpoint(port.clone(), ip, slices);
                self.chains.insert(endpoint.chain, object);
            }
        }
    }

    fn numbers(&self, port: &PortName) -> impl Iterator<Item = u16> + Clone {
        self.ports.get(port).into_iter().flatten().copied()
    }

    /// Returns the object of one line; none for lines that all Services share.
    fn of_line(&self, line: &str) -> Option<RuleObject> {
        if let Some(chain) = line.strip_prefix(':') {
            return self.chains.get(first_word(chain)).cloned();
        }
        let (_, rest) = line.split_once(' ').filter(|_| line.starts_with('-'))?;
        if let Some(object) = self.chains.get(first_word(rest)) {
            return Some(object.clone());
        }
        let (_, rule) = rest.split_once(' ')?;
        let rule: Rule = rule.parse().ok()?;
        let (port, _) = PortName::of_dispatch_rule(&rule)?;
        self.ports
            .contains_key(&port)
            .then_some(RuleObject::Service(port))
    }
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

fn slices(tracker: &Tracker, port: &PortName, ip: IpAddr) -> BTreeSet<SliceName> {
    let service = ServiceName::new(port.namespace(), port.service());
    let state = tracker.get(&service).into_iter();
    let slices = state.flat_map(|state| &state.slices);
    let containing = slices.filter(|(_, slice)| slice.endpoints.iter().any(|one| one.ip == ip));
    containing.map(|(name, _)| name.clone()).collect()
}
