//! The tables of expectations: Services, and what a client meets that asks for them.
//!
//! Text, so that a reader who knows Kubernetes and not this code sees whether they are right.
//! The README beside them says how to read them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::packets::words::{Cell, Client, Target, Variant, Word};
use crate::support::rules::Family;
use crate::support::servers::Transport;

/// What can be said about a Service.
const KNOWN: [&str; 9] = [
    "affinity", "external", "held", "internal", "mode", "ranges", "type", "udp", "unclear",
];

/// One server behind a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name: one letter.
    pub server: char,
    /// In which condition it is: nothing for ready.
    pub condition: Option<char>,
    /// The nodes and zones it is meant for.
    pub hints: Vec<String>,
}

/// A row of a table.
#[derive(Debug, Clone)]
pub struct Row {
    /// Where it holds.
    pub variants: Vec<Variant>,
    /// Which address is asked.
    pub target: Target,
    /// How it is asked.
    pub transport: Transport,
    /// For these families.
    pub families: Vec<Family>,
    /// What each client meets.
    pub cells: Vec<(Client, Cell)>,
}

/// A Service and the rows about it.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its name in the cluster.
    pub name: String,
    /// Words about it, such as `external=Local`; without a value they are flags.
    pub words: BTreeMap<String, String>,
    /// The servers behind it.
    pub endpoints: Vec<Endpoint>,
    /// Rules of another program for new connections to its cluster IP.
    pub rules: Vec<ThirdPartyRule>,
    /// The rows about it.
    pub rows: Vec<Row>,
    /// Damages to the rules of the node, with the rows about it that hold then.
    pub damages: Vec<Damage>,
}

/// A damage to the rules, by commands of `iptables` and `ip6tables`.
#[derive(Debug, Clone)]
pub struct Damage {
    /// The words of each command.
    pub commands: Vec<Vec<String>>,
    /// What clients meet afterwards.
    pub rows: Vec<Row>,
}

/// Packets of a Service that a rule of another program meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleScope {
    /// New connections, in the filter table.
    Request,
    /// The same in the security table.
    Security,
    /// Answers to them, in the filter table.
    Reply,
    /// All from and to the cluster IP, in the raw table.
    Raw,
}

impl Word for RuleScope {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Request, "rule"),
        (Self::Security, "security"),
        (Self::Reply, "reply"),
        (Self::Raw, "raw"),
    ];
}

/// A rule of another program.
#[derive(Debug, Clone)]
pub struct ThirdPartyRule {
    /// The packets that meet it, and with that its table.
    pub scope: RuleScope,
    /// The built-in chain that it stands in.
    pub hook: String,
    /// For these families.
    pub families: Vec<Family>,
    /// Its words.
    pub words: Vec<String>,
}

impl Service {
    /// The value of a word, empty for flags.
    pub fn word(&self, key: &str) -> Option<&str> {
        self.words.get(key).map(String::as_str)
    }

    /// Adds a command to the damage before it, or begins another one below rows.
    fn add_damage(&mut self, words: &[&str]) {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        match self.damages.last_mut().filter(|last| last.rows.is_empty()) {
            Some(last) => last.commands.push(command),
            None => self.damages.push(Damage {
                commands: vec![command],
                rows: Vec::new(),
            }),
        }
    }

    /// All rows, also those that hold after a damage.
    pub fn all_rows(&self) -> impl Iterator<Item = &Row> {
        let damaged = self.damages.iter().flat_map(|damage| &damage.rows);
        self.rows.iter().chain(damaged)
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let commands: Vec<String> = self.commands.iter().map(|words| words.join(" ")).collect();
        f.write_str(&commands.join("; "))
    }
}

/// Reads all tables, in the order of their files' names. Services without NodePorts are the last:
/// only the first ones get any.
pub fn all() -> Vec<Service> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packets");
    let files = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "tbl"));
    paths.sort();
    let read = |path| parse(&std::fs::read_to_string(path).unwrap());
    let mut services: Vec<Service> = paths.iter().flat_map(read).collect();
    services.sort_by_key(|service| service.word("type") == Some("ClusterIP"));
    services
}

/// Reads the text of one table.
pub fn parse(text: &str) -> Vec<Service> {
    let mut services: Vec<Service> = Vec::new();
    let mut header = Header::default();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            [] => {}
            ["service", name, ref words @ ..] => {
                services.push(service(name, words));
                header = Header::default();
            }
            [
                scope @ ("rule" | "security" | "reply" | "raw"),
                hook,
                ref words @ ..,
            ] => {
                let service = services.last_mut().expect("a rule is below a service");
                let rule = third_party_rule(Word::meant(scope), hook, words);
                service.rules.push(rule);
            }
            ["damage", ref words @ ..] => {
                let service = services.last_mut().expect("a damage is below a service");
                service.add_damage(words);
                header = Header::default();
            }
            ["with", variants, ref clients @ ..] => header = Header::new(variants, clients),
            [target, ref cells @ ..] => {
                let service = services.last_mut().expect("a row is below a service");
                let row = header.row(target, cells);
                match service.damages.last_mut() {
                    Some(damage) => damage.rows.push(row),
                    None => service.rows.push(row),
                }
            }
        }
    }
    services
}

/// What the rows below have in common.
struct Header {
    variants: Vec<Variant>,
    clients: Vec<Client>,
}

impl Default for Header {
    fn default() -> Self {
        Self::new("default", &[])
    }
}

impl Header {
    fn new(variants: &str, clients: &[&str]) -> Self {
        let clients = match clients {
            [] => &["pod", "node", "outside"],
            named => named,
        };
        Self {
            variants: variants.split(',').map(Word::meant).collect(),
            clients: clients.iter().map(|word| Word::meant(word)).collect(),
        }
    }

    fn row(&self, target: &str, cells: &[&str]) -> Row {
        let mut words = target.split('/');
        let mut row = Row {
            variants: self.variants.clone(),
            target: Word::meant(words.next().unwrap_or_default()),
            transport: Transport::Tcp,
            families: Family::ALL.to_vec(),
            cells: Vec::new(),
        };
        for word in words {
            match word {
                "udp" => row.transport = Transport::Udp,
                "v4" => row.families = vec![Family::V4],
                "v6" => row.families = vec![Family::V6],
                other => panic!("`{other}` in `{target}`"),
            }
        }
        assert_eq!(cells.len(), self.clients.len(), "cells of `{target}`");
        let cells = self.clients.iter().zip(cells);
        row.cells = cells
            .filter(|(_, text)| **text != "-")
            .map(|(client, text)| (*client, Cell::parse(text)))
            .collect();
        row
    }
}

fn service(name: &str, words: &[&str]) -> Service {
    let (words, endpoints) = match words.iter().position(|word| *word == ":") {
        Some(colon) => (&words[..colon], &words[colon + 1..]),
        None => (words, &[][..]),
    };
    let word = |word: &&str| {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        assert!(KNOWN.contains(&key), "`{key}` of {name} means nothing");
        (key.to_owned(), value.to_owned())
    };
    Service {
        name: name.to_owned(),
        words: words.iter().map(word).collect(),
        endpoints: endpoints.iter().map(|text| endpoint(text)).collect(),
        rules: Vec::new(),
        rows: Vec::new(),
        damages: Vec::new(),
    }
}

fn third_party_rule(scope: RuleScope, hook: &str, words: &[&str]) -> ThirdPartyRule {
    let (hook, families) = match hook.split_once('/') {
        None => (hook, Family::ALL.to_vec()),
        Some((hook, "v4")) => (hook, vec![Family::V4]),
        Some((hook, "v6")) => (hook, vec![Family::V6]),
        Some((_, other)) => panic!("`{other}` in `{hook}`"),
    };
    ThirdPartyRule {
        scope,
        hook: hook.to_owned(),
        families,
        words: words.iter().map(|word| (*word).to_owned()).collect(),
    }
}

fn endpoint(text: &str) -> Endpoint {
    let mut parts = text.split(':');
    let mut letters = parts.next().unwrap_or_default().chars();
    Endpoint {
        server: letters.next().expect("a server"),
        condition: letters.next(),
        hints: parts.map(str::to_owned).collect(),
    }
}
