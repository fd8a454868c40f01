//! Which objects a line of a payload comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::super::restore::Side;
use crate::inspect::catalog::{Catalog, PortName};
use crate::model::{ServiceName, Services, SliceName};
use crate::render::Options;
use crate::rules::Rule;
use crate::tracker::Tracker;

/// What a chain or a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Object {
    /// A port of a Service.
    Service(PortName),
    /// An endpoint of a Service's port, and the slices that it is in.
    Endpoint(PortName, IpAddr, BTreeSet<SliceName>),
}

impl Object {
    /// The service port.
    pub(super) fn port(&self) -> &PortName {
        match self {
            Self::Service(port) | Self::Endpoint(port, ..) => port,
        }
    }
}

impl fmt::Display for Object {
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

/// The objects of every chain.
pub(super) struct Objects {
    chains: BTreeMap<Box<str>, Object>,
    ports: BTreeMap<PortName, BTreeSet<u16>>,
}

impl Objects {
    /// Those of all states of the cluster that a payload leads from and to.
    pub(super) fn of(trackers: &[&Tracker], options: &Options) -> Self {
        let mut objects = Self {
            chains: BTreeMap::new(),
            ports: BTreeMap::new(),
        };
        for tracker in trackers {
            // A machine without rules takes every payload of ours; a test applies thousands.
            if let Ok((rules, _)) = (Side { tracker, options }).rules() {
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
                self.chains.insert(chain, Object::Service(port.clone()));
            }
            for endpoint in view.endpoints {
                let ip = endpoint.address.ip();
                let slices = slices(tracker, &port, ip);
                let object = Object::Endpoint(port.clone(), ip, slices);
                self.chains.insert(endpoint.chain, object);
            }
        }
    }

    /// Every service port, with the numbers of its ports.
    pub(super) fn ports(&self) -> impl Iterator<Item = (&PortName, Numbers<'_>)> + Clone {
        let ports = self.ports.iter();
        ports.map(|(port, numbers)| (port, numbers.iter().copied()))
    }

    /// The numbers that a service port is reached at.
    pub(super) fn numbers(&self, port: &PortName) -> impl Iterator<Item = u16> + Clone {
        self.ports.get(port).into_iter().flatten().copied()
    }

    /// The object of one line; none for what all Services share.
    pub(super) fn of_line(&self, line: &str) -> Option<Object> {
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
            .then_some(Object::Service(port))
    }
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

fn slices(tracker: &Tracker, port: &PortName, ip: IpAddr) -> BTreeSet<SliceName> {
    let service = ServiceName::new(port.namespace(), port.service());
    let state = tracker.get(&service).into_iter();
    let slices = state.flat_map(|state| &state.slices);
    let has = slices.filter(|(_, slice)| slice.endpoints.iter().any(|one| one.ip == ip));
    has.map(|(name, _)| name.clone()).collect()
}
