//! `explain` against a second tracer, which shares no code with it: over all dumps, over random
//! rules, and over random clusters with third-party rules.
//!
//! The second one is slow and simple. It tries every truth of every condition that it cannot know,
//! so it also finds when an answer may be called clear.

#![allow(missing_docs, reason = "what the tests share may fail")]
mod condition;
mod random;
mod save;
mod target;
mod traversed;
mod trees;
mod walk;

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use deltaproxy::testing::inspect::explain::{
    ClientSelection, NodeRules, PacketPath, PathResult, SeenSource, explain,
};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::RuleSet;

use crate::support::tell;
use save::{Save, option};
use walk::{Question, Shares, answers, are_close};

/// Returns the result of `explain`, and `true` if it is clear.
fn explained(rules: &RuleSet, question: &Question) -> (Shares, bool) {
    let family = IpFamily::of(question.destination);
    explained_with(
        NodeRules::new(rules, family, &question.own),
        question,
        shares_of,
    )
}

/// Explains a question and returns what `read` finds in its only path.
fn explained_with<T>(
    node: NodeRules<'_>,
    question: &Question,
    read: impl Fn(&PacketPath<'_>) -> T,
) -> T {
    let nodes = [node];
    let to = SocketAddr::new(question.destination, question.port);
    let query = format!("{to}/{}", question.protocol).parse().unwrap();
    let client = ClientSelection::Source {
        ip: question.source,
        in_interface: question.in_interface.as_deref().map(Box::from),
    };
    let explained = explain(&query, &nodes, &client).unwrap_or_else(|why| panic!("{to}: {why}"));
    read(&explained[0].paths[0])
}

fn shares_of(path: &PacketPath<'_>) -> (Shares, bool) {
    let mut shares = Shares::new();
    for branch in &path.branches {
        let seen = |source: &SeenSource| match source {
            SeenSource::Client => "kept",
            SeenSource::Node(_) | SeenSource::Other(_) => "masqueraded",
        };
        let end = match &branch.result {
            PathResult::Served { to, source } => {
                format!("to {} {} {}", to.ip(), to.port(), seen(source))
            }
            PathResult::Unanswered {
                to, source, loss, ..
            } => {
                let seen = seen(source);
                format!("to {} {} {seen}, reply {loss}", to.ip(), to.port())
            }
            PathResult::Passed { source, .. } => format!("passed {}", seen(source)),
            PathResult::Dropped(_) => "dropped".to_owned(),
            PathResult::Rejected(_) => "rejected".to_owned(),
            PathResult::Unclear(_) | PathResult::MissingTable(_) => "unclear".to_owned(),
        };
        *shares.entry(end).or_default() += share(&branch.share.to_string());
    }
    (shares, path.undecided.is_empty())
}

fn share(text: &str) -> f64 {
    let number = |text: &str| text.parse::<f64>().unwrap();
    match text.split_once('/') {
        Some((part, of)) => number(part) / number(of),
        None => number(text),
    }
}

/// Compares both tracers; the error is their difference. `None`: too many paths to try.
fn difference(save: &Save, rules: &RuleSet, question: &Question) -> Option<Result<(), String>> {
    let expected = answers(save, question)?;
    let (found, is_clear) = explained(rules, question);
    // Two rules that are unclear by themselves differ by their texts.
    let is_unclear = found.contains_key("unclear");
    let is_clear_alike = is_unclear || is_clear == (expected.len() == 1);
    let is_same = are_close(&found, &expected[0]) && is_clear_alike;
    Some(if is_same {
        Ok(())
    } else {
        Err(format!(
            "{question:?}\n  expected {expected:?}\n  explain  {found:?}, clear: {is_clear}"
        ))
    })
}

/// A dump, and the questions that its rules suggest.
struct Fixture {
    save: Save,
    rules: RuleSet,
    questions: Vec<Question>,
}

impl Fixture {
    fn new(text: &str) -> Self {
        let save = Save::read(text).expect("closed quotes");
        let rules = RuleSet::parse(text).unwrap();
        let mut questions = Vec::new();
        for family in [IpFamily::V4, IpFamily::V6] {
            questions.extend(Self::questions(&save, family));
        }
        Self {
            save,
            rules,
            questions,
        }
    }

    /// Every address and port that a rule names, from every client that a rule may treat apart.
    fn questions(save: &Save, family: IpFamily) -> Vec<Question> {
        let is_v4 = family == IpFamily::V4;
        let addresses = if is_v4 {
            ["192.168.0.2", "198.51.100.7", "10.244.7.7"]
        } else {
            ["fd00:192::2", "2001:db8::7", "fd00:10:244::77"]
        };
        let [own, outside, pod] = addresses.map(|text| text.parse::<IpAddr>().unwrap());
        let of_family = |ip: &IpAddr| ip.is_ipv4() == is_v4 && !ip.is_loopback();
        let host = |text: &str| text.split('/').next()?.parse::<IpAddr>().ok();
        let (mut to, mut endpoints) = (BTreeSet::new(), BTreeSet::new());
        let mut pods = Vec::new();
        for rule in save.rules() {
            let endpoint = option(rule, "--to-destination");
            let endpoint = endpoint.and_then(|to| to.parse::<SocketAddr>().ok());
            endpoints.extend(endpoint.filter(|to| of_family(&to.ip())));
            let ports = option(rule, "--dport").and_then(|port| port.parse::<u16>().ok());
            let protocol = option(rule, "-p").unwrap_or("tcp").to_owned();
            if let Some(port) = ports.filter(|_| ["tcp", "udp", "sctp"].contains(&&*protocol)) {
                let ip = option(rule, "-d").and_then(host).unwrap_or(own);
                to.extend(of_family(&ip).then_some((ip, port, protocol)));
            }
            if option(rule, "-j") == Some("KUBE-MARK-MASQ") && rule[0] == "!" && rule[1] == "-s" {
                pods.push(rule[2].clone());
            }
        }
        if to.is_empty() {
            return Vec::new();
        }
        let endpoint = endpoints
            .first()
            .map(|to| (to.ip(), to.port(), "tcp".to_owned()));
        to.extend(endpoint);
        let mut clients = vec![(own, None), (outside, None), (outside, Some("eth0"))];
        clients.extend([(pod, None), (pod, Some("cali12"))]);
        clients.extend(endpoints.first().map(|to| (to.ip(), None)));
        let is_pod = |ip: IpAddr| {
            pods.iter().any(|network| condition::inside(network, ip))
                || endpoints.iter().any(|to| to.ip() == ip)
        };
        let pairs = to
            .iter()
            .flat_map(|to| clients.iter().map(move |client| (to, client)));
        let question = |((destination, port, protocol), (source, in_interface)): (
            &(IpAddr, u16, String),
            &(IpAddr, Option<&str>),
        )| Question {
            source: *source,
            destination: *destination,
            port: *port,
            protocol: protocol.clone(),
            in_interface: in_interface.map(str::to_owned),
            own: [own].into(),
            may_be_bridged: is_pod(*source),
        };
        pairs.map(question).collect()
    }
}

/// Files with rules that no program can read, or that are no output of iptables-save.
const NOT_COMPARED: [&str; 4] = [
    "cut.save",
    "damaged.save",
    "nftables.save",
    "two-hosts.save",
];

/// The dumps of the project, with their names.
fn dumps() -> impl Iterator<Item = (String, Fixture)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/dumps", "tests/explain"].into_iter();
    let entries = folders.flat_map(move |folder| fs::read_dir(root.join(folder)).unwrap());
    entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_save = path.extension().is_some_and(|kind| kind == "save");
        let is_readable = !name.starts_with("unreadable") && !NOT_COMPARED.contains(&&*name);
        (is_save && is_readable).then(|| {
            let text = fs::read_to_string(&path).unwrap();
            (name, Fixture::new(&text))
        })
    })
}

#[test]
fn explain_agrees_with_a_second_tracer_over_all_dumps() {
    let (mut asked, mut skipped, mut clear, mut wrong) = (0, 0, 0, Vec::new());
    for (name, fixture) in dumps() {
        for question in &fixture.questions {
            asked += 1;
            match difference(&fixture.save, &fixture.rules, question) {
                None => skipped += 1,
                Some(Ok(())) => {
                    clear += usize::from(explained(&fixture.rules, question).1);
                }
                Some(Err(what)) => wrong.push(format!("{name}: {what}")),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {asked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    tell(format_args!(
        "second tracer: {asked} questions about dumps, {skipped} with too many paths to try, \
         {clear} with a clear answer"
    ));
    assert!(
        asked > 300 && skipped * 10 < asked,
        "{skipped} of {asked} skipped"
    );
    assert!(
        clear > 100 && clear + 20 < asked,
        "{clear} of {asked} clear"
    );
}
