//! Everything that is told of a destination.
//!
//! Apart because here the parts meet: what is asked for, who asks, and what each of them meets.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::client::{self, Wanted, Who};
use super::destination::Destination;
use super::find::{self, NotFound};
use super::follow::follow;
use super::near::{self, Near};
use super::node::Node;
use super::question::Question;
use super::way::Way;
use crate::inspect::catalog::FrontendConflict;
use crate::rules::{Network, Table};

/// What becomes of packets to one destination.
#[derive(Debug, Clone)]
pub struct Explanation<'a> {
    /// Where to.
    pub to: Destination,
    /// The ways of different clients: at least one.
    pub ways: Vec<Way<'a>>,
    /// For how long clients stay with the endpoint they had.
    pub affinity: Option<Duration>,
    /// Whom the load balancer admits; empty: everybody.
    pub source_ranges: Vec<Network>,
    /// Service ports that ask for it and have no rules for it, because another Service has it.
    pub conflicts: Vec<FrontendConflict>,
    /// What is near, if it is no Service's.
    pub near: Vec<Near>,
    /// Whether an address was made up for the node, because nobody knows one.
    pub is_node_made_up: bool,
    /// The address that was made up for the node, if what is told depends on it.
    pub stand_in: Option<IpAddr>,
    /// Whether pods are left out, because no address of one is known.
    pub lacks_pods: bool,
    /// The tables that nobody saw: rules there may be about it.
    pub unseen: BTreeSet<Table>,
    /// Tables that have rules, but are not read here: `raw` and `security`.
    pub unread: Vec<Box<str>>,
}

/// Explains everything that the question is about.
///
/// # Errors
///
/// If rules are about nothing of that name.
pub fn explain<'a>(
    question: &Question,
    nodes: &[Node<'a>],
    wanted: &Wanted,
) -> Result<Vec<Explanation<'a>>, NotFound> {
    let found = find::find(question, nodes)?;
    let lacks_pods = |(node, to): &(&Node<'_>, Destination)| client::lacks_pods(node, to, wanted);
    let lacks_pods = found.iter().any(lacks_pods);
    let explained = found
        .into_iter()
        .filter_map(|(node, to)| of_destination(node, to, wanted));
    let explained: Vec<_> = explained.collect();
    if explained.is_empty() {
        return Err(if lacks_pods {
            NotFound::Pods
        } else {
            NotFound::Client
        });
    }
    Ok(explained)
}

fn of_destination<'a>(
    node: &Node<'a>,
    to: Destination,
    wanted: &Wanted,
) -> Option<Explanation<'a>> {
    let mut ways: Vec<Way<'a>> = Vec::new();
    for client in client::clients(node, &to, wanted) {
        let way = follow(node, &to, client);
        match ways.iter_mut().find(|known| known.is_like(&way)) {
            Some(known) => known.join(way),
            None => ways.push(way),
        }
    }
    let is_local = node.locality.is_local(to.ip);
    let has_nodes = ways.iter().flat_map(|way| &way.clients);
    let is_about_node = is_local || has_nodes.into_iter().any(|client| client.who == Who::Node);
    let balanced = to
        .views(node)
        .find(|(subject, _)| subject.is_load_balancer());
    let source_ranges = balanced.map(|(_, view)| view.source_ranges.clone());
    let source_ranges = source_ranges.unwrap_or_default();
    let affinity = to.views(node).find_map(|(_, view)| view.affinity);
    let near = if to.subjects.is_empty() && to.endpoint_of.is_empty() {
        near::near(node, &to)
    } else {
        Vec::new()
    };
    (!ways.is_empty()).then(|| Explanation {
        affinity,
        near,
        conflicts: to.conflicts(node).cloned().collect(),
        is_node_made_up: node.is_made_up && is_about_node,
        stand_in: node
            .stand_in()
            .filter(|ip| depends_on(*ip, &to, &ways, &source_ranges)),
        lacks_pods: client::lacks_pods(node, &to, wanted),
        unseen: node.unseen.clone(),
        unread: unread(node),
        source_ranges,
        ways,
        to,
    })
}

/// Whether another address of the node might meet something else: it is what is asked, or it is
/// asked for by source ranges. Elsewhere it changes little.
fn depends_on(node: IpAddr, to: &Destination, ways: &[Way<'_>], ranges: &[Network]) -> bool {
    let mut clients = ways.iter().flat_map(|way| &way.clients);
    let has_node = clients.any(|client| client.who == Who::Node);
    to.ip == node || (has_node && ranges.iter().any(|range| !range.is_all()))
}

fn unread(node: &Node<'_>) -> Vec<Box<str>> {
    let tables = node.rules.unmodeled_tables();
    let with_rules = tables.filter(|(_, rules)| *rules > 0);
    with_rules.map(|(table, _)| table.into()).collect()
}
