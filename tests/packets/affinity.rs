//! A client with affinity whose server leaves: it moves to another one, and stays there.
//!
//! Not a table, because it is about one moment after another.

use std::collections::BTreeSet;

use super::ask::{Outcome, Question, ask_all, questions};
use super::cluster;
use super::scene::Scene;
use super::table::Service;
use super::words::{Met, Source, Variant, shown};
use crate::support::lab::{POD_PORT, pod_address};
use crate::support::rules::Family;
use crate::support::wait::{PATIENCE, ensure, eventually};

/// The Service of the tables that is asked, and what its rows begin with.
const NAME: &str = "sticky";
const ROWS: &str = "sticky cluster-ip/";

/// What each client of each family met while one server was there, away, and there again.
pub struct Departure {
    leaving: char,
    questions: Vec<Question>,
    before: Vec<Outcome>,
    meanwhile: Vec<Outcome>,
    after: Vec<Outcome>,
}

impl Departure {
    /// Lets a server leave and come back.
    pub fn of(leaving: char, scene: &Scene) -> Self {
        let service = scene.services.iter().find(|service| service.name == NAME);
        let service = service.expect("the tables have it");
        let mut questions = questions(&scene.services, Variant::Default);
        questions.retain(|question| question.text.starts_with(ROWS));
        let before = ask_all(scene, &questions);
        set_presence(scene, service, leaving, Presence::Away);
        let meanwhile = ask_all(scene, &questions);
        set_presence(scene, service, leaving, Presence::There);
        let after = ask_all(scene, &questions);
        Self {
            leaving,
            questions,
            before,
            meanwhile,
            after,
        }
    }

    /// A line for each client that did not move when it had to, or did when it had not.
    pub fn complaints(&self, program: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        for (index, question) in self.questions.iter().enumerate() {
            let [before, meanwhile, after] =
                [&self.before, &self.meanwhile, &self.after].map(|all| &all[index].seen);
            if !is_right(self.leaving, [before, meanwhile, after]) {
                complaints.push(format!(
                    "{}: {} leaves and returns, {program} gave {}, then {}, then {}",
                    question.text,
                    self.leaving,
                    shown(before),
                    shown(meanwhile),
                    shown(after)
                ));
            }
        }
        complaints
    }

    /// How many clients were watched, and how often they asked.
    pub fn counts(&self) -> (usize, usize) {
        let all = [&self.before, &self.meanwhile, &self.after];
        let attempts = all.into_iter().flatten().map(|outcome| outcome.attempts);
        (self.questions.len(), attempts.sum())
    }
}

/// A client of another endpoint stays there; a client that has moved does not come back.
fn is_right(leaving: char, [before, meanwhile, after]: [&BTreeSet<Met>; 3]) -> bool {
    let (Some(before), Some(meanwhile), Some(after)) =
        (server(before), server(meanwhile), server(after))
    else {
        return false;
    };
    meanwhile != leaving && after == meanwhile && (before == leaving || before == meanwhile)
}

/// The only server that answered.
fn server(seen: &BTreeSet<Met>) -> Option<char> {
    let mut seen = seen.iter();
    match (seen.next(), seen.next()) {
        (Some(Met::Server(name, Source::Kept | Source::Masqueraded)), None) => name.chars().next(),
        _ => None,
    }
}

/// Whether a server is behind the Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    Away,
}

/// Changes the slices, and waits for the rules of both families.
fn set_presence(scene: &Scene, service: &Service, server: char, presence: Presence) {
    let mut present = service.endpoints.clone();
    present.retain(|endpoint| presence == Presence::There || endpoint.server != server);
    let slices = Family::ALL.map(|family| cluster::slice(service, family, &present));
    scene.lab.control.api().apply_all(&slices);
    for family in Family::ALL {
        let address = pod_address(family, cluster::place(server).1);
        let endpoint = std::net::SocketAddr::new(address, POD_PORT);
        let comment = format!("default/{NAME}:http -> {endpoint}");
        eventually(PATIENCE, || {
            let is_there = scene.lab.rules(family).contains(&comment);
            ensure(is_there == (presence == Presence::There), || {
                format!("`{comment}` is {presence:?} only in the cluster")
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Cell;

    #[test]
    fn only_who_has_to_moves() {
        let is_right = |cells: [&str; 3]| {
            let seen = cells.map(|cell| Cell::parse(cell).met);
            super::is_right('a', [&seen[0], &seen[1], &seen[2]])
        };
        for right in [["a", "b", "b"], ["*a", "*c", "*c"], ["b", "b", "b"]] {
            assert!(is_right(right), "{right:?}");
        }
        for wrong in [
            ["a", "a", "a"],
            ["a", "b", "a"],
            ["a", "bc", "b"],
            ["a", "refused", "a"],
            ["b", "c", "c"],
            ["b", "b", "a"],
        ] {
            assert!(!is_right(wrong), "{wrong:?}");
        }
    }
}
