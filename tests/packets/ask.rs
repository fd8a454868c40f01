//! Asks what the tables say, all clients at once.
//!
//! Each client is a thread in its namespace. It keeps many questions open, because those that are
//! dropped only wait.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt;

use super::cluster;
use super::scene::Scene;
use super::table::{Damage, Row, Service};
use super::words::{Cell, Client, Met, Source, Variant, Word, shown};
use crate::support::lab::{NODE_ADDRESSES, pod_address};
use crate::support::rules::Family;
use crate::support::servers::{Reply, Transport, ask};

/// How many questions of a client are open at a time.
const OPEN: usize = 64;

/// An answer that is expected may take so long on a busy machine: three retransmissions.
const LATE: Duration = Duration::from_secs(8);

/// Silence that is expected is believed after one retransmission.
const SILENT: Duration = Duration::from_millis(1500);

/// How often is asked before a server is believed never to answer. If three answer by chance, this
/// is wrong once in 10,000 million times.
const MOST: usize = 60;

/// How often is asked when only some of the endpoints may answer, or always the same one. A wrong
/// one of three escapes one cell in 130, but not the cells of two families and several clients.
const LEAST: usize = 12;

/// One cell of a table for one family.
#[derive(Debug, Clone)]
pub struct Question {
    /// What it is about, in the words of the table.
    pub text: String,
    /// The table's answer.
    pub expected: Cell,
    /// The client.
    pub client: Client,
    /// How.
    pub transport: Transport,
    /// Where.
    pub to: SocketAddr,
    /// Whether rules cannot tell the answer, so that `explain` has to call it unclear.
    pub is_unclear: bool,
    /// Whether the Service has endpoints that may not answer.
    is_choosy: bool,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// All that was met.
    pub seen: BTreeSet<Met>,
    /// How often was asked.
    pub attempts: usize,
}

/// The questions of all rows that hold for a variant.
pub fn questions(services: &[Service], variant: Variant) -> Vec<Question> {
    let mut questions = Vec::new();
    for (index, service) in services.iter().enumerate() {
        let rows = service.rows.iter();
        for row in rows.filter(|row| row.variants.contains(&variant)) {
            questions.extend(of_row(service, index, row));
        }
    }
    questions
}

/// The questions after a damage that is in the table of the Service that is number `index`.
pub fn damaged(service: &Service, index: usize, damage: &Damage) -> Vec<Question> {
    let rows = damage.rows.iter();
    let mut questions: Vec<Question> = rows.flat_map(|row| of_row(service, index, row)).collect();
    for question in &mut questions {
        question.text = format!("{} after `{damage}`", question.text);
    }
    questions
}

fn of_row(service: &Service, index: usize, row: &Row) -> Vec<Question> {
    let mut questions = Vec::new();
    for family in &row.families {
        let of_client = |(client, cell): &(Client, Cell)| Question {
            text: text(service, row, *family, *client),
            expected: cell.clone(),
            client: *client,
            transport: row.transport,
            to: cluster::address(row.target, index, *family),
            is_unclear: service.word("unclear").is_some(),
            is_choosy: cell.met.len() < service.endpoints.len(),
        };
        questions.extend(row.cells.iter().map(of_client));
    }
    questions
}

fn text(service: &Service, row: &Row, family: Family, client: Client) -> String {
    let transport = match row.transport {
        Transport::Tcp => "",
        Transport::Udp => "/udp",
    };
    let family = match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    };
    format!(
        "{} {}{transport}/{family} from {}",
        service.name,
        row.target.word(),
        client.word()
    )
}

/// Asks all questions; the outcomes are in their order.
pub fn ask_all(scene: &Scene, questions: &[Question]) -> Vec<Outcome> {
    let numbered: Vec<_> = questions.iter().enumerate().collect();
    let mut outcomes = std::thread::scope(|scope| {
        let clients = Client::WORDS.iter().map(|(client, _)| {
            let own: Vec<_> = numbered
                .iter()
                .copied()
                .filter(|(_, question)| question.client == *client)
                .collect();
            scope.spawn(move || scene.netns(*client).enter(|| ask_some(own)))
        });
        let threads: Vec<_> = clients.collect();
        let joined = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        joined.collect::<Vec<_>>()
    });
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn ask_some(questions: Vec<(usize, &Question)>) -> Vec<(usize, Outcome)> {
    let asked = questions
        .into_iter()
        .map(|(number, question)| async move { (number, question.ask().await) });
    futures::stream::iter(asked)
        .buffer_unordered(OPEN)
        .collect()
        .await
}

impl Question {
    async fn ask(&self) -> Outcome {
        let mut outcome = Outcome {
            seen: BTreeSet::new(),
            attempts: 0,
        };
        let patience = if self.expected.met.contains(&Met::Dropped) {
            SILENT
        } else {
            LATE
        };
        loop {
            let (reply, own) = ask(self.transport, self.to, patience).await;
            let is_served = matches!(reply, Reply::Answer { .. });
            outcome.seen.insert(met(reply, own));
            outcome.attempts += 1;
            if !is_served || outcome.attempts >= self.enough(&outcome.seen) {
                return outcome;
            }
        }
    }

    /// How often to ask, going by what was seen.
    fn enough(&self, seen: &BTreeSet<Met>) -> usize {
        let is_hopeful = seen.is_subset(&self.expected.met) && *seen != self.expected.met;
        if is_hopeful && !self.expected.is_sticky {
            MOST
        } else if self.is_choosy || self.expected.is_sticky || *seen != self.expected.met {
            LEAST
        } else {
            1
        }
    }
}

fn met(reply: Reply, own: Option<IpAddr>) -> Met {
    match reply {
        Reply::Refused => Met::Refused,
        Reply::TimedOut => Met::Dropped,
        Reply::Failed(why) => Met::Odd(why),
        Reply::Answer { server, peer } => {
            let family = if peer.is_ipv4() {
                Family::V4
            } else {
                Family::V6
            };
            // `x` is beyond the node, and sees the address of the node on that side.
            let source = if Some(peer) == own {
                Source::Kept
            } else if peer == pod_address(family, 1) || is_of_node(peer) {
                Source::Masqueraded
            } else {
                Source::Odd(peer)
            };
            Met::Server(server, source)
        }
    }
}

/// Whether that is the node's address towards its neighbors.
pub fn is_of_node(peer: IpAddr) -> bool {
    let mut own = NODE_ADDRESSES.iter();
    own.any(|address| address.parse() == Ok(peer))
}

/// A line for each question whose outcome the table does not allow.
pub fn complaints(program: &str, questions: &[Question], outcomes: &[Outcome]) -> Vec<String> {
    let pairs = questions.iter().zip(outcomes);
    let wrong = pairs.filter(|(question, outcome)| !question.expected.allows(&outcome.seen));
    wrong
        .map(|(question, outcome)| {
            format!(
                "{}: expected {}, {program} gave {}",
                question.text,
                question.expected,
                shown(&outcome.seen)
            )
        })
        .collect()
}
