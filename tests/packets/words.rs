//! The words of the tables: client, address, flags, and the outcome.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// With which flags the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// A cluster CIDR tells pods from others.
    Default,
    /// Nothing tells pods from others.
    NoDetector,
    /// Also pods are masqueraded on their way to cluster IPs.
    MasqueradeAll,
    /// NodePorts are not on 127.0.0.1.
    NoLocalhost,
    /// NodePorts are on the address of one interface only.
    OneAddress,
    /// NodePorts are on what the Node object says is the node's address.
    Primary,
    /// NodePorts are on the addresses of localhost only.
    LocalhostOnly,
    /// The flags of `Default`, on a node that forwards nothing of its own accord.
    ClosedNode,
}

/// The client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// A pod behind no Service.
    Pod,
    /// A program in the node's own namespace.
    Node,
    /// A machine beside the node.
    Outside,
    /// The pod of server `a`.
    A,
}

/// Which of a Service's addresses is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The cluster IP.
    ClusterIp,
    /// The NodePort on the address that the node's neighbors know.
    NodePort,
    /// The NodePort on the node's address towards its pods.
    NodePortInside,
    /// The NodePort on 127.0.0.1 or ::1.
    Loopback,
    /// The external IP.
    ExternalIp,
    /// The load balancer's address.
    LoadBalancer,
    /// No address of the Service: a server of the node's own that listens on localhost.
    Localhost,
}

/// Something that the tables have a word for.
pub trait Word: Copy + PartialEq + 'static {
    /// Every value and its word.
    const WORDS: &'static [(Self, &'static str)];

    /// As the tables write it.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(value, _)| *value == self);
        found.expect("every value has a word").1
    }

    /// What the tables mean by it.
    fn meant(word: &str) -> Self {
        let found = Self::WORDS.iter().find(|(_, known)| *known == word);
        found.unwrap_or_else(|| panic!("`{word}` means nothing")).0
    }
}

impl Word for Variant {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Default, "default"),
        (Self::NoDetector, "no-detector"),
        (Self::MasqueradeAll, "masquerade-all"),
        (Self::NoLocalhost, "no-localhost"),
        (Self::OneAddress, "one-address"),
        (Self::Primary, "primary"),
        (Self::LocalhostOnly, "localhost-only"),
        (Self::ClosedNode, "closed-node"),
    ];
}

impl Word for Client {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Pod, "pod"),
        (Self::Node, "node"),
        (Self::Outside, "outside"),
        (Self::A, "a"),
    ];
}

impl Word for Target {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::ClusterIp, "cluster-ip"),
        (Self::NodePort, "node-port"),
        (Self::NodePortInside, "node-port-inside"),
        (Self::Loopback, "loopback"),
        (Self::ExternalIp, "external-ip"),
        (Self::LoadBalancer, "load-balancer"),
        (Self::Localhost, "localhost"),
    ];
}

/// What one attempt came to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// A server, by its name, and what it saw of the client.
    Server(String, Source),
    /// Turned away at once.
    Refused,
    /// Nothing came back.
    Dropped,
    /// Something else, which no table expects.
    Odd(String),
}

/// Which address of the client a server saw.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The client's own.
    Kept,
    /// The node's.
    Masqueraded,
    /// Another one, which no table expects.
    Odd(IpAddr),
}

/// What all attempts together shall come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Each of these, and nothing else.
    pub met: BTreeSet<Met>,
    /// Only one of them, always the same.
    pub is_sticky: bool,
}

impl Cell {
    /// `ab,*c`: a and b see the client's own address, c the node's. `1:abc`: always the same one.
    pub fn parse(text: &str) -> Self {
        let (is_sticky, text) = match text.strip_prefix("1:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let met = match text {
            "refused" => [Met::Refused].into(),
            "dropped" => [Met::Dropped].into(),
            servers => servers.split(',').flat_map(group).collect(),
        };
        Self { met, is_sticky }
    }

    /// Whether this is what was wanted.
    pub fn allows(&self, seen: &BTreeSet<Met>) -> bool {
        if self.is_sticky {
            seen.len() == 1 && seen.is_subset(&self.met)
        } else {
            *seen == self.met
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_of = if self.is_sticky { "1:" } else { "" };
        write!(f, "{one_of}{}", shown(&self.met))
    }
}

fn group(text: &str) -> Vec<Met> {
    let (source, letters) = match text.strip_prefix('*') {
        Some(letters) => (Source::Masqueraded, letters),
        None => (Source::Kept, text),
    };
    let servers = letters.chars().map(|letter| letter.to_string());
    servers
        .map(|name| Met::Server(name, source.clone()))
        .collect()
}

/// What was met, all of it, as a table would have it.
pub fn shown(met: &BTreeSet<Met>) -> String {
    let of = |source: &Source| {
        let names = met.iter().filter_map(|met| match met {
            Met::Server(name, seen) if seen == source => Some(name.as_str()),
            _ => None,
        });
        names.collect::<String>()
    };
    let mut texts = Vec::from([of(&Source::Kept)]);
    texts.push(format!("*{}", of(&Source::Masqueraded)));
    texts.retain(|text| !text.trim_start_matches('*').is_empty());
    let others = met.iter().filter_map(|met| match met {
        Met::Server(_, Source::Kept | Source::Masqueraded) => None,
        Met::Server(name, Source::Odd(address)) => Some(format!("{name} asked by {address}")),
        Met::Refused => Some("refused".to_owned()),
        Met::Dropped => Some("dropped".to_owned()),
        Met::Odd(what) => Some(what.clone()),
    });
    texts.extend(others);
    texts.join(",")
}
