//! Cuts a payload down to some Services or a table, and annotates lines with their objects.
//!
//! A payload of some Services is for reading: it lacks the rules of other Services in shared
//! chains. It ends without `COMMIT`, so that no restore program takes it for a complete one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::net::IpAddr;

use super::restore::RenderSide;
use super::snapshot::missing;
use crate::config::RenderConfig;
use crate::inspect::catalog::{Catalog, PortName, PortQuery, UnknownRules};
use crate::model::{ServiceName, Services, SliceName};
use crate::render::Options;
use crate::rules::{Rule, Table};
use crate::tracker::Tracker;

/// Selection of the lines that are printed.
pub(super) struct PayloadFilter<'a> {
    pub(super) selected: &'a PortQuery,
    pub(super) table: Option<Table>,
    pub(super) is_annotated: bool,
}

impl PayloadFilter<'_> {
    /// Reports whether the payload is printed unchanged.
    pub(super) fn is_everything(&self) -> bool {
        self.selected.is_all() && self.table.is_none() && !self.is_annotated
    }

    /// Checks that every Service that was named exists.
    pub(super) fn check_services(
        &self,
        objects: &RuleObjects,
        config: &RenderConfig,
    ) -> anyhow::Result<()> {
        let found = self
            .selected
            .check(&objects.ports(), UnknownRules::default());
        missing::explained(found, || missing::services_of_config(config))
    }

    /// Prints the selected lines.
    pub(super) fn print(
        &self,
        out: &mut dyn Write,
        payload: &str,
        objects: &RuleObjects,
    ) -> anyhow::Result<()> {
        let (mut table, mut head) = (None, None);
        let mut last: Option<RuleObject> = None;
        for line in payload.lines() {
            if let Some(name) = line.strip_prefix('*') {
                (table, last, head) = (Table::from_name(name), None, Some(line));
                continue;
            }
            let object = self.object(line, objects);
            if !self.shows(table, object.as_ref(), objects) {
                continue;
            }
            // The table is printed before its first selected line.
            if let Some(head) = head.take() {
                writeln!(out, "{head}")?;
            }
            if self.is_annotated && object.is_some() && object != last {
                let object = object.as_ref();
                writeln!(
                    out,
                    "# {}",
                    object.map(ToString::to_string).unwrap_or_default()
                )?;
            }
            writeln!(out, "{line}")?;
            last = object;
        }
        Ok(())
    }

    fn object(&self, line: &str, objects: &RuleObjects) -> Option<RuleObject> {
        let is_needed = self.is_annotated || !self.selected.is_all();
        is_needed.then(|| objects.of_line(line)).flatten()
    }

    fn shows(
        &self,
        table: Option<Table>,
        object: Option<&RuleObject>,
        objects: &RuleObjects,
    ) -> bool {
        if self.table.is_some() && self.table != table {
            return false;
        }
        if self.selected.is_all() {
            return true;
        }
        object.is_some_and(|object| {
            self.selected
                .fits(object.port(), &objects.numbers(object.port()))
        })
    }
}

/// Object that a chain or rule is rendered from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RuleObject {
    /// Port of a Service.
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

type Numbers<'a> = std::iter::Copied<std::collections::btree_set::Iter<'a, u16>>;

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

    /// Returns every service port, with the numbers of its ports.
    fn ports(&self) -> impl Iterator<Item = (&PortName, Numbers<'_>)> + Clone {
        let ports = self.ports.iter();
        ports.map(|(port, numbers)| (port, numbers.iter().copied()))
    }

    /// Returns the port numbers of a service port.
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
        let port = PortName {
            name: first_word(rule.comment()?).into(),
            protocol: rule.protocol.as_ref()?.value.as_ref().into(),
        };
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
