//! Walks one packet through all hooks for one list of choices, and tries all lists.
//!
//! Every choice doubles the walks: nothing is merged and nothing is clever.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::condition::{self, Truth, hex};
use super::save::{Save, option};
use super::target::{changed, is_target};

/// Packet to trace, and the addresses of the node.
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

/// Ports that clients use on Linux.
pub const CLIENTS: (u16, u16) = (32_768, 60_999);

/// Where a packet is, and what has become of it.
#[derive(Debug, Clone)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own; the other tracer has types for them"
)]
pub struct Place {
    /// Destination that rules see; `None` if it is not known.
    pub ip: Option<IpAddr>,
    /// First and last of the ports that it may be.
    pub port: (u16, u16),
    /// Source that rules see.
    pub source: IpAddr,
    pub source_port: (u16, u16),
    /// The server of the connection.
    pub receiver: (IpAddr, u16),
    /// State of the connection: INVALID before there is one.
    pub state: &'static str,
    pub is_reply: bool,
    /// Whether a process on the node sent the packet.
    pub is_from_node: bool,
    /// Source after masquerading, if that is known.
    pub new_source: Option<IpAddr>,
    pub mark: u32,
    pub connection_mark: u32,
    pub is_translated: bool,
    pub is_masqueraded: bool,
    pub seen: BTreeSet<String>,
    pub incoming: Option<String>,
    pub outgoing: Option<String>,
    pub is_leaving: bool,
}

impl Place {
    /// Whether connection tracking knows the packet.
    pub fn has_connection(&self) -> bool {
        ["NEW", "ESTABLISHED"].contains(&self.state)
    }
}

/// How many of all packets end in each way.
pub type Shares = BTreeMap<String, f64>;

/// Alternatives of a rule: matched or not, or by a share of the packets.
#[derive(Debug, Clone, Copy)]
pub enum Choice {
    Unknown,
    Part(f64),
}

/// Why a walk stops.
pub enum Stop {
    Ends(String),
    Asks(Choice),
}

/// More walks than this are not tried.
pub const MOST_WALKS: usize = 20_000;

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
pub struct Walk<'a> {
    save: &'a Save,
    question: &'a Question,
    script: std::slice::Iter<'a, bool>,
    place: Place,
    /// Rules that were tried for the first packet.
    pub traversed: usize,
}

/// Result of a chain.
enum Flow {
    Returns,
    Accepts,
}

impl<'a> Walk<'a> {
    pub fn new(save: &'a Save, question: &'a Question, script: &'a [bool]) -> Self {
        let place = Place {
            ip: Some(question.destination),
            port: (question.port, question.port),
            source: question.source,
            source_port: CLIENTS,
            receiver: (question.destination, question.port),
            state: "INVALID",
            is_reply: false,
            is_from_node: question.is_own(),
            new_source: None,
            mark: 0,
            connection_mark: 0,
            is_translated: false,
            is_masqueraded: false,
            seen: BTreeSet::new(),
            incoming: None,
            outgoing: None,
            is_leaving: false,
        };
        Self {
            save,
            question,
            script: script.iter(),
            place,
            traversed: 0,
        }
    }

    pub fn hooks(&mut self) -> Stop {
        if let Err(stop) = self.request() {
            return stop;
        }
        let source = self.source_word();
        if !self.place.is_translated {
            return Stop::Ends(format!("passed {source}"));
        }
        let (ip, port) = self.place.receiver;
        match self.reply() {
            Ok(()) => Stop::Ends(format!("to {ip} {port} {source}")),
            Err(Stop::Ends(end)) if end == "unclear" => Stop::Ends(end),
            Err(Stop::Ends(end)) => Stop::Ends(format!("to {ip} {port} {source}, reply {end}")),
            Err(asks) => asks,
        }
    }

    fn source_word(&self) -> &'static str {
        if self.place.is_masqueraded {
            "masqueraded"
        } else {
            "kept"
        }
    }

    /// Way of the first packet.
    fn request(&mut self) -> Result<(), Stop> {
        let (first, asked) = (self.question.is_own(), self.question.destination);
        let first = if first { "OUTPUT" } else { "PREROUTING" };
        // The route is that of the first destination.
        self.enter(first, Some(asked));
        self.built_in("raw", first)?;
        if self.place.state == "INVALID" {
            self.place.state = "NEW";
        }
        let mut tables = vec!["mangle", "nat"];
        if first == "OUTPUT" {
            tables.extend(["filter", "security"]);
        }
        for table in tables {
            self.built_in(table, first)?;
        }
        let to_node = self.question.is_local(self.place.receiver.0);
        for (table, chain) in rest(self.question.is_own(), to_node) {
            self.enter(chain, Some(self.place.receiver.0));
            self.built_in(table, chain)?;
        }
        Ok(())
    }

    /// Way of the answer to it, back to who asked.
    fn reply(&mut self) -> Result<(), Stop> {
        let client = self.question.source;
        let place = &mut self.place;
        let port = place.receiver.1;
        (place.source, place.source_port) = (place.receiver.0, (port, port));
        let (seen, ports) = if place.is_masqueraded {
            (place.new_source, (1024, 65_535))
        } else {
            (Some(client), CLIENTS)
        };
        (place.ip, place.port) = (seen, ports);
        (place.state, place.is_reply, place.mark) = ("INVALID", true, 0);
        place.seen.clear();
        place.is_from_node = self.question.is_local(place.receiver.0);
        let from_node = place.is_from_node;
        let first = if from_node { "OUTPUT" } else { "PREROUTING" };
        self.enter(first, seen);
        self.built_in("raw", first)?;
        if self.place.state == "UNTRACKED" {
            return Err(Stop::Ends("not translated back".to_owned()));
        }
        self.place.state = "ESTABLISHED";
        self.built_in("mangle", first)?;
        (self.place.ip, self.place.port) = (Some(client), CLIENTS);
        if first == "OUTPUT" {
            self.built_in("filter", first)?;
            self.built_in("security", first)?;
        }
        for (table, chain) in rest(from_node, self.question.is_local(client)) {
            self.enter(chain, Some(client));
            if table == "nat" {
                self.place.source = self.question.destination;
                self.place.source_port = (self.question.port, self.question.port);
            } else {
                self.built_in(table, chain)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, chain: &str, routed_to: Option<IpAddr>) {
        let has_incoming = !["OUTPUT", "POSTROUTING"].contains(&chain);
        let has_outgoing = !["PREROUTING", "INPUT"].contains(&chain);
        let of_client = self.question.in_interface.as_deref().unwrap_or("?");
        let (far_in, far_out) = if self.place.is_reply {
            ("?", of_client)
        } else {
            (of_client, "?")
        };
        let incoming = if self.place.is_from_node {
            "lo"
        } else {
            far_in
        };
        let outgoing = match routed_to {
            Some(ip) if self.question.is_local(ip) => "lo",
            Some(_) => far_out,
            None => "any",
        };
        self.place.incoming = has_incoming.then(|| incoming.to_owned());
        self.place.outgoing = has_outgoing.then(|| outgoing.to_owned());
        self.place.is_leaving = !has_incoming;
    }

    fn built_in(&mut self, table: &str, chain: &str) -> Result<(), Stop> {
        if table == "nat" && !self.place.has_connection() {
            return Ok(());
        }
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
            self.traversed += usize::from(!self.place.is_reply);
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
                let is_v4 = place.source.is_ipv4();
                let mut own = self.question.own.iter().filter(|ip| ip.is_ipv4() == is_v4);
                place.new_source = match option(rest, "--to-source") {
                    Some(text) => text.split(':').next().and_then(|ip| ip.parse().ok()),
                    None if place.outgoing.as_deref() == Some("lo") => None,
                    // All questions are about nodes with one address.
                    None => own.next().copied(),
                };
                Some(Ok(Flow::Accepts))
            }
            "NOTRACK" => self.no_tracking(),
            "CT" if rest.iter().any(|word| word == "--notrack") => self.no_tracking(),
            "CT" if place.state != "INVALID" => None,
            "NETMAP" if ["POSTROUTING", "INPUT"].contains(&hook) => {
                place.is_masqueraded = true;
                Some(Ok(Flow::Accepts))
            }
            "DNAT" => {
                let to = &rest[1];
                let is_range = to.contains('-');
                let (ip, port) = place.receiver;
                let receiver = if let Ok(socket) = to.parse::<std::net::SocketAddr>() {
                    (socket.ip(), socket.port())
                } else if let Ok(ip) = to.parse() {
                    (ip, port)
                } else if let Some(port) = to.strip_prefix(':').filter(|_| !is_range) {
                    (ip, port.parse().unwrap())
                } else {
                    return ends("unclear");
                };
                Some(Ok(self.redirect(receiver)))
            }
            "REDIRECT" if hook == "OUTPUT" && !rest.iter().any(|word| word.contains("0-")) => {
                let is_v4 = place.receiver.0.is_ipv4();
                let ip = if is_v4 { "127.0.0.1" } else { "::1" }.parse().unwrap();
                let port = option(rest, "--to-ports").map(|port| port.parse().unwrap());
                let receiver = (ip, port.unwrap_or(place.receiver.1));
                Some(Ok(self.redirect(receiver)))
            }
            "HMARK" | "NFQUEUE" | "TPROXY" | "REDIRECT" | "NETMAP" | "CT" | "SYNPROXY" => {
                ends("unclear")
            }
            _ => None,
        }
    }

    fn redirect(&mut self, receiver: (IpAddr, u16)) -> Flow {
        let place = &mut self.place;
        (place.receiver, place.ip, place.port) =
            (receiver, Some(receiver.0), (receiver.1, receiver.1));
        place.is_translated = true;
        Flow::Accepts
    }

    /// A packet that is tracked already stays so.
    fn no_tracking(&mut self) -> Option<Result<Flow, String>> {
        if self.place.state == "INVALID" {
            self.place.state = "UNTRACKED";
        }
        None
    }

    fn connection_mark(&mut self, words: &[String]) -> Option<Result<Flow, String>> {
        if !self.place.has_connection() {
            return None;
        }
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

/// Hooks behind the first one, of packets from and to the node or not.
fn rest(from_node: bool, to_node: bool) -> Vec<(&'static str, &'static str)> {
    let posts = [("mangle", "POSTROUTING"), ("nat", "POSTROUTING")];
    let forward = ["mangle", "filter", "security"].map(|table| (table, "FORWARD"));
    let input = ["mangle", "filter", "security"].map(|table| (table, "INPUT"));
    let again = [("raw", "PREROUTING"), ("mangle", "PREROUTING")];
    match (from_node, to_node) {
        (true, true) => [&posts[..], &again, &input].concat(),
        (true, false) => posts.to_vec(),
        (false, true) => [&input[..], &[("nat", "INPUT")]].concat(),
        (false, false) => [&forward[..], &posts].concat(),
    }
}
