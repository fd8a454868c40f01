//! What `explain` says of each cell, given nothing but the rules that are in the kernel and the
//! addresses of the node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use deltaproxy::testing::host::local_addresses;
use deltaproxy::testing::inspect::catalog::{Catalog, RulesetSource, TrafficOrigin};
use deltaproxy::testing::inspect::explain::{
    ClientSelection, NodeRules, PathResult, SeenSource, explain,
};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::{RuleSet, Share};

use super::ask::{Question, is_of_node};
use super::cluster::{self, UDP_POD_PORT};
use super::scene::Scene;
use super::words::{Client, Met, Source, Word, shown};
use crate::support::lab::pod_address;
use crate::support::rules::Family;
use crate::support::servers::Transport;

/// How an answer begins that depends on rules that cannot be decided.
const UNSURE: &str = "it is not sure about";

/// A line for each question of which `explain` says something else than the table.
pub fn complaints(program: &str, scene: &Scene, questions: &[Question]) -> Vec<String> {
    let rules = Family::ALL.map(|family| RuleSet::parse(&scene.lab.rules(family)).unwrap());
    let addresses = scene.lab.node.enter(|| local_addresses().unwrap());
    let [v4, v6] = &rules;
    let nodes = [(v4, IpFamily::V4), (v6, IpFamily::V6)];
    let nodes = nodes.map(|(rules, family)| NodeRules::new(rules, family, &addresses));
    let sources = sources(scene, questions);
    let mut complaints = Vec::new();
    for (number, question) in questions.iter().enumerate() {
        let Question { text, expected, .. } = question;
        let mut complain = |what: &str| {
            complaints.push(format!(
                "{text}: expected {expected}, of {program}'s rules explain says {what}"
            ));
        };
        match said(question, sources[&number], &nodes) {
            Ok(said) if said != expected.met && !question.is_unclear => complain(&shown(&said)),
            Ok(_) if question.is_unclear => complain("a clear answer"),
            Ok(_) => {}
            Err(what) if question.is_unclear && what.starts_with(UNSURE) => {}
            Err(what) => complain(&what),
        }
    }
    complaints
}

/// A line for each question of which `services` says something else than the table: whether the
/// address leads to an endpoint for clients outside and on the node.
pub fn services_complaints(program: &str, scene: &Scene, questions: &[Question]) -> Vec<String> {
    let catalogs = Family::ALL.map(|family| {
        let rules = RuleSet::parse(&scene.lab.rules(family)).unwrap();
        let mut catalog = Catalog::read(&rules);
        catalog.mark_unreachable(&rules, RulesetSource::Kernel);
        catalog
    });
    let [v4, v6] = &catalogs;
    let mut complaints = Vec::new();
    for Question {
        text,
        expected,
        client,
        to,
        ..
    } in questions
    {
        let origin = match client {
            Client::Node => TrafficOrigin::Node,
            Client::Outside => TrafficOrigin::Outside,
            Client::Pod | Client::A => continue,
        };
        let ports = if to.is_ipv4() { &v4.ports } else { &v6.ports };
        let frontends = ports.values().flat_map(|view| &view.frontends);
        let asked: Vec<_> = frontends
            .filter(|one| one.port == to.port() && one.ip.is_none_or(|ip| ip == to.ip()))
            .collect();
        assert!(!asked.is_empty(), "{text}");
        // Of several Services with one frontend, the first one is served.
        let listed = asked
            .iter()
            .any(|one| !one.unreachable_from.contains(&origin));
        let is_endpoint = |met: &Met| matches!(met, Met::Server(name, _) if name != "x");
        let is_served = expected.met.iter().any(is_endpoint);
        if listed != is_served {
            complaints.push(format!(
                "{text}: expected {expected}, of {program}'s rules services says {}",
                if listed {
                    "it is served"
                } else {
                    "it is unreachable"
                }
            ));
        }
    }
    complaints
}

/// From which address the kernel lets each client ask, by the question's number.
fn sources(scene: &Scene, questions: &[Question]) -> BTreeMap<usize, IpAddr> {
    let mut sources = BTreeMap::new();
    for (client, _) in Client::WORDS {
        let own = questions.iter().enumerate();
        let own = own.filter(|(_, question)| question.client == *client);
        let own: Vec<(usize, SocketAddr)> = own.map(|(number, one)| (number, one.to)).collect();
        let chosen = scene.netns(*client).enter(|| {
            let choose = |(number, to): (usize, SocketAddr)| (number, source(to));
            own.into_iter().map(choose).collect::<Vec<_>>()
        });
        sources.extend(chosen);
    }
    sources
}

fn source(to: SocketAddr) -> IpAddr {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket
        .connect(to)
        .unwrap_or_else(|why| panic!("{to}: {why}"));
    socket.local_addr().unwrap().ip()
}

fn said(
    question: &Question,
    source: IpAddr,
    nodes: &[NodeRules<'_>],
) -> Result<BTreeSet<Met>, String> {
    let protocol = match question.transport {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    };
    let asked = format!("{}/{protocol}", question.to).parse();
    let wanted = ClientSelection::Source {
        ip: source,
        in_interface: None,
    };
    let explained = explain(&asked.unwrap(), nodes, &wanted).map_err(|why| why.to_string())?;
    let [explanation] = explained.as_slice() else {
        return Err(format!("{} destinations", explained.len()));
    };
    let [path] = explanation.paths.as_slice() else {
        return Err(format!("{} paths", explanation.paths.len()));
    };
    if let Some(doubt) = path.undecided.first() {
        return Err(format!("{UNSURE} {doubt}"));
    }
    let even = Share::new(1, path.branches.len() as u128);
    if let Some(branch) = path.branches.iter().find(|branch| branch.share != even) {
        return Err(format!(
            "{} of {} endpoints",
            branch.share,
            path.branches.len()
        ));
    }
    if question.expected.is_sticky != explanation.affinity.is_some() {
        return Err(format!("an affinity of {:?}", explanation.affinity));
    }
    let met: Result<BTreeSet<Met>, String> = path
        .branches
        .iter()
        .map(|branch| met(&branch.result, question.to))
        .collect();
    Ok(met?.into_iter().map(|met| as_seen(met, source)).collect())
}

/// Whether the node's address was replaced by itself cannot be seen.
fn as_seen(met: Met, source: IpAddr) -> Met {
    match met {
        Met::Server(name, Source::Masqueraded)
            if Family::ALL
                .map(|family| pod_address(family, 1))
                .contains(&source)
                || (name == "x" && is_of_node(source)) =>
        {
            Met::Server(name, Source::Kept)
        }
        met => met,
    }
}

fn met(result: &PathResult, asked: SocketAddr) -> Result<Met, String> {
    let source = |seen: &SeenSource| match seen {
        SeenSource::Client => Source::Kept,
        SeenSource::Node(_) | SeenSource::Other(_) => Source::Masqueraded,
    };
    let own_server: SocketAddr = cluster::address(super::words::Target::Localhost, 0, Family::V4);
    Ok(match result {
        PathResult::Served { to, source: seen } => Met::Server(server(*to)?, source(seen)),
        PathResult::Passed {
            is_local,
            source: seen,
        } => match is_local {
            true if asked == own_server => Met::Server("n".to_owned(), source(seen)),
            true => Met::Refused,
            false => Met::Server("x".to_owned(), source(seen)),
        },
        // The client cannot tell which of the two is lost.
        PathResult::Dropped(_) | PathResult::Unanswered { .. } => Met::Dropped,
        PathResult::Rejected(_) => Met::Refused,
        PathResult::Unclear(why) => return Err(why.to_string()),
        PathResult::MissingTable(table) => return Err(format!("{table} was not read")),
    })
}

/// The name of the server that listens there.
fn server(to: SocketAddr) -> Result<String, String> {
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    let is_there = |name: &char| cluster::server_address(*name, family) == to.ip();
    let name = ['a', 'b', 'c', cluster::HOST_SERVER]
        .into_iter()
        .find(is_there);
    let name = name.ok_or_else(|| format!("{to} answers"))?;
    Ok(if to.port() == UDP_POD_PORT {
        name.to_ascii_uppercase().to_string()
    } else {
        name.to_string()
    })
}
