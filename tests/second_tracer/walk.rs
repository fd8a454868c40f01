//! Walks one packet through all hooks for one list of choices, and tries all lists.
//!
//! Every choice doubles the walks: nothing is merged and nothing is clever.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::condition::{self, Truth, hex};
use super::save::{Save, option};

/// What is asked.
#[derive(Debug, Clone)]
pub struct Question {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub port: u16,
    pub protocol: String,
    pub in_interface: Option<String>,
    /// The node's own addresses.
    pub own: BTreeSet<IpAddr>,
    pub may_be_bridged: bool,
}

impl Question {
    /// Whether an address is the node's.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.own.contains(&ip)
    }

    /// Whether the node asks itself.
    pub fn is_own(&self) -> bool {
        self.is_local(self.source)
    }
}

/// Where a packet is, and what has become of it.
#[derive(Debug, Clone)]
pub struct Place {
    pub ip: IpAddr,
    pub port: u16,
    pub mark: u32,
    pub connection_mark: u32,
    pub is_translated: bool,
    pub is_masqueraded: bool,
    pub seen: BTreeSet<String>,
    pub incoming: Option<String>,
    pub outgoing: Option<String>,
    pub is_leaving: bool,
}

/// How many of all packets end in each way.
pub type Shares = BTreeMap<String, f64>;

/// What the next choice is between.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Unknown,
    Part(f64),
}

/// Why a walk stops.
enum Stop {
    Ends(String),
    Asks(Choice),
}

/// More walks than this are not tried.
const MOST_WALKS: usize = 20_000;

/// Shares that differ by less are equal: probabilities have five decimals in old dumps.
const CLOSE: f64 = 2e-4;

/// Whether two answers are the same.
pub fn are_close(left: &Shares, right: &Shares) -> bool {
    let part = |shares: &Shares, end: &String| shares.get(end).copied().unwrap_or(0.0);
    let mut ends = left.keys().chain(right.keys());
    ends.all(|end| (part(left, end) - part(right, end)).abs() < CLOSE)
}

/// All answers that some truth of the unknown conditions leads to; the first is that of none being
/// true. `None`: too many walks.
pub fn answers(save: &Save, question: &Question) -> Option<Vec<Shares>> {
    let mut walks = 0;
    explore(save, question, &mut Vec::new(), &mut walks)
}

fn explore(
    save: &Save,
    question: &Question,
    script: &mut Vec<bool>,
    walks: &mut usize,
) -> Option<Vec<Shares>> {
    *walks += 1;
    if *walks > MOST_WALKS {
        return None;
    }
    let choice = match Walk::new(save, question, script).hooks() {
        Stop::Ends(end) => return Some(vec![Shares::from([(end, 1.0)])]),
        Stop::Asks(choice) => choice,
    };
    script.push(false);
    let no = explore(save, question, script, walks)?;
    script.pop();
    script.push(true);
    let yes = explore(save, question, script, walks)?;
    script.pop();
    let mut all: Vec<Shares> = Vec::new();
    let add = |shares: Shares| {
        if !all.iter().any(|known| are_close(known, &shares)) {
            all.push(shares);
        }
    };
    match choice {
        Choice::Unknown => no.into_iter().chain(yes).for_each(add),
        Choice::Part(part) => {
            let pairs = no
                .iter()
                .flat_map(|no| yes.iter().map(move |yes| (no, yes)));
            pairs.map(|(no, yes)| mixed(no, yes, part)).for_each(add);
        }
    }
    Some(all)
}

/// The two together, with that part of the second.
fn mixed(no: &Shares, yes: &Shares, part: f64) -> Shares {
    let mut mixed = Shares::new();
    for (shares, part) in [(no, 1.0 - part), (yes, part)] {
        for (end, share) in shares {
            *mixed.entry(end.clone()).or_default() += share * part;
        }
    }
    mixed
}

/// One walk.
struct Walk<'a> {
    save: &'a Save,
    question: &'a Question,
    script: std::slice::Iter<'a, bool>,
    place: Place,
}

/// What a chain comes to.
enum Flow {
    Returns,
    Accepts,
}

impl<'a> Walk<'a> {
    fn new(save: &'a Save, question: &'a Question, script: &'a [bool]) -> Self {
        let place = Place {
            ip: question.destination,
            port: question.port,
            mark: 0,
            connection_mark: 0,
            is_translated: false,
            is_masqueraded: false,
            seen: BTreeSet::new(),
            incoming: None,
            outgoing: None,
            is_leaving: false,
        };
        let script = script.iter();
        Self {
            save,
            question,
            script,
            place,
        }
    }

    fn hooks(mut self) -> Stop {
        if let Err(stop) = self.all_hooks() {
            return stop;
        }
        let Place { ip, port, .. } = self.place;
        let source = if self.place.is_masqueraded {
            "masqueraded"
        } else {
            "kept"
        };
        Stop::Ends(if self.place.is_translated {
            format!("to {ip} {port} {source}")
        } else {
            format!("passed {source}")
        })
    }

    fn all_hooks(&mut self) -> Result<(), Stop> {
        let is_own = self.question.is_own();
        let first: &[_] = if is_own {
            &[
                ("mangle", "OUTPUT"),
                ("nat", "OUTPUT"),
                ("filter", "OUTPUT"),
            ]
        } else {
            &[("mangle", "PREROUTING"), ("nat", "PREROUTING")]
        };
        for (table, chain) in first {
            // The route is that of the first destination.
            self.enter(chain, self.question.destination);
            self.built_in(table, chain)?;
        }
        let to_node = self.question.is_local(self.place.ip);
        let posts = [("mangle", "POSTROUTING"), ("nat", "POSTROUTING")];
        let forward = [("mangle", "FORWARD"), ("filter", "FORWARD")];
        let back = [
            ("mangle", "PREROUTING"),
            ("mangle", "INPUT"),
            ("filter", "INPUT"),
        ];
        let input = [("mangle", "INPUT"), ("filter", "INPUT"), ("nat", "INPUT")];
        let rest: Vec<_> = match (is_own, to_node) {
            (true, true) => posts.into_iter().chain(back).collect(),
            (true, false) => posts.to_vec(),
            (false, true) => input.to_vec(),
            (false, false) => forward.into_iter().chain(posts).collect(),
        };
        for (table, chain) in rest {
            self.enter(chain, self.place.ip);
            self.built_in(table, chain)?;
        }
        Ok(())
    }

    fn enter(&mut self, chain: &str, routed_to: IpAddr) {
        let has_incoming = !["OUTPUT", "POSTROUTING"].contains(&chain);
        let has_outgoing = !["PREROUTING", "INPUT"].contains(&chain);
        let incoming = match &self.question.in_interface {
            _ if self.question.is_own() => "lo",
            Some(name) => name,
            None => "?",
        };
        let outgoing = if self.question.is_local(routed_to) {
            "lo"
        } else {
            "?"
        };
        self.place.incoming = has_incoming.then(|| incoming.to_owned());
        self.place.outgoing = has_outgoing.then(|| outgoing.to_owned());
        self.place.is_leaving = !has_incoming;
    }

    fn built_in(&mut self, table: &str, chain: &str) -> Result<(), Stop> {
        let policy = self.save.chain(table, chain).map(|one| one.policy.clone());
        match self.chain(table, chain, chain, 0)? {
            Flow::Returns if policy.as_deref() == Some("DROP") => {
                Err(Stop::Ends("dropped".to_owned()))
            }
            Flow::Returns | Flow::Accepts => Ok(()),
        }
    }

    fn chain(&mut self, table: &str, hook: &str, name: &str, depth: usize) -> Result<Flow, Stop> {
        let unclear = || Err(Stop::Ends("unclear".to_owned()));
        let Some(chain) = self.save.chain(table, name) else {
            return if depth == 0 {
                Ok(Flow::Returns)
            } else {
                unclear()
            };
        };
        if depth > 40 {
            return unclear();
        }
        for rule in &chain.rules {
            if !self.is_match(rule)? {
                continue;
            }
            let has_set = rule.iter().any(|word| word == "--set");
            if has_set && !condition::is_negated(rule, "--set") {
                let list = option(rule, "--name").unwrap_or("DEFAULT");
                self.place.seen.insert(list.to_owned());
            }
            let goes = option(rule, "-g");
            let Some(target) = goes.or_else(|| option(rule, "-j")) else {
                continue;
            };
            let at = rule.iter().rposition(|word| word == target).unwrap();
            match self.target(target, &rule[at + 1..], hook) {
                Some(Ok(flow)) => return Ok(flow),
                Some(Err(end)) => return Err(Stop::Ends(end)),
                None if is_target(target) => {}
                None => match self.chain(table, hook, target, depth + 1)? {
                    Flow::Returns if goes.is_none() => {}
                    flow => return Ok(flow),
                },
            }
        }
        Ok(Flow::Returns)
    }

    fn is_match(&mut self, rule: &[String]) -> Result<bool, Stop> {
        let choice = match condition::rule(rule, self.question, &self.place) {
            Truth::Yes => return Ok(true),
            Truth::No => return Ok(false),
            Truth::Unknown => Choice::Unknown,
            Truth::Part(part) => Choice::Part(part),
        };
        self.script.next().copied().ok_or(Stop::Asks(choice))
    }

    /// How the chain or the packet ends, if it does.
    fn target(&mut self, name: &str, rest: &[String], hook: &str) -> Option<Result<Flow, String>> {
        let ends = |end: &str| Some(Err(end.to_owned()));
        let place = &mut self.place;
        match name {
            "ACCEPT" => Some(Ok(Flow::Accepts)),
            "RETURN" => Some(Ok(Flow::Returns)),
            "DROP" => ends("dropped"),
            "REJECT" => ends("rejected"),
            "MARK" => {
                place.mark = changed(place.mark, &rest[0], &rest[1]);
                None
            }
            "CONNMARK" => self.connection_mark(rest),
            "MASQUERADE" | "SNAT" => {
                place.is_masqueraded = true;
                Some(Ok(Flow::Accepts))
            }
            "NETMAP" if ["POSTROUTING", "INPUT"].contains(&hook) => {
                place.is_masqueraded = true;
                Some(Ok(Flow::Accepts))
            }
            "DNAT" => {
                let to = &rest[1];
                let is_range = to.contains('-');
                if let Ok(socket) = to.parse::<std::net::SocketAddr>() {
                    (place.ip, place.port) = (socket.ip(), socket.port());
                } else if let Ok(ip) = to.parse() {
                    place.ip = ip;
                } else if let Some(port) = to.strip_prefix(':').filter(|_| !is_range) {
                    place.port = port.parse().unwrap();
                } else {
                    return ends("unclear");
                }
                place.is_translated = true;
                Some(Ok(Flow::Accepts))
            }
            "REDIRECT" if hook == "OUTPUT" && !rest.iter().any(|word| word.contains("0-")) => {
                let is_v4 = place.ip.is_ipv4();
                place.ip = if is_v4 { "127.0.0.1" } else { "::1" }.parse().unwrap();
                if let Some(port) = option(rest, "--to-ports") {
                    place.port = port.parse().unwrap();
                }
                place.is_translated = true;
                Some(Ok(Flow::Accepts))
            }
            "HMARK" | "NFQUEUE" | "TPROXY" | "REDIRECT" | "NETMAP" | "CT" | "SYNPROXY" => {
                ends("unclear")
            }
            _ => None,
        }
    }

    fn connection_mark(&mut self, words: &[String]) -> Option<Result<Flow, String>> {
        let mask = |name: &str| option(words, name).map_or(u32::MAX, hex);
        let (of_packet, of_connection) = (mask("--nfmask"), mask("--ctmask"));
        let place = &mut self.place;
        match words[0].as_str() {
            "--restore-mark" => {
                place.mark = place.mark & !of_packet ^ place.connection_mark & of_connection;
            }
            "--save-mark" => {
                let kept = place.connection_mark & !of_connection;
                place.connection_mark = kept ^ place.mark & of_packet;
            }
            way => place.connection_mark = changed(place.connection_mark, way, &words[1]),
        }
        None
    }
}

/// A mark after `--set-xmark` and its other spellings.
fn changed(mark: u32, way: &str, text: &str) -> u32 {
    let (value, cleared) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    let (value, cleared) = (hex(value), hex(cleared));
    match way {
        "--set-xmark" => mark & !cleared ^ value,
        "--set-mark" => mark & !(cleared | value) ^ value,
        "--or-mark" => mark | value,
        "--and-mark" => mark & value,
        other => panic!("{other}"),
    }
}

/// Whether it is an extension after which the packet goes on.
fn is_target(name: &str) -> bool {
    let known = [
        "MARK",
        "CONNMARK",
        "LOG",
        "NFLOG",
        "TRACE",
        "TCPMSS",
        "SET",
        "TEE",
        "TTL",
        "HL",
        "DSCP",
        "TOS",
        "CLASSIFY",
        "CHECKSUM",
        "AUDIT",
        "IDLETIMER",
        "ECN",
        "TCPOPTSTRIP",
        "CONNSECMARK",
        "SECMARK",
        "RATEEST",
        "LED",
        "ULOG",
    ];
    known.contains(&name)
}
