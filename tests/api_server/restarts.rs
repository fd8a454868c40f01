//! A server that is restarted again and again while the cluster changes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::WRITTEN;
use super::cluster::{Cluster, Kind, Written, reply, service, slice};
use super::node::{listed, restored};
use super::scripted::{Asked, Piece, Reply};
use crate::cluster::Dice;

/// Restarts of the server.
const RESTARTS: usize = 30;

/// A cluster and its server, which is in its first life, or its thirtieth.
struct Server {
    cluster: Cluster,
    dice: Dice,
    life: usize,
    /// Requests that are refused before it is there again.
    refusals: usize,
    /// Kinds with an open watch in this life.
    watching: HashSet<Kind>,
}

impl Server {
    fn change(&mut self) {
        let name = self.dice.pick(&["a", "b", "c", "d"]);
        match self.dice.below(6) {
            0 => self.cluster.delete(Kind::Service, name),
            1 => self.cluster.delete(Kind::Slice, &format!("{name}-1")),
            2 | 3 => {
                let port = self.dice.pick(&[80, 81, 82]);
                self.cluster.set(Kind::Service, service(name, port));
            }
            _ => {
                let last = self.dice.pick(&[2, 3, 4, 5, 6]);
                self.cluster.set(Kind::Slice, slice(name, last));
            }
        }
    }

    /// The end of one life and the beginning of the next: things have changed meanwhile, and every
    /// second time the new server remembers nothing of it.
    fn restart(&mut self) {
        self.life += 1;
        self.watching.clear();
        self.refusals = self.dice.below(8);
        for _ in 0..=self.dice.below(4) {
            self.change();
        }
        if self.dice.chance(50) {
            self.cluster.forget();
        }
    }

    fn answer(&mut self, asked: &Asked) -> Reply {
        let written = self.dice.pick(&WRITTEN);
        if self.life < RESTARTS && self.watching.len() == 3 {
            self.restart();
        }
        if self.refusals > 0 {
            self.refusals -= 1;
            return Reply::Refuse;
        }
        let healthy = self.cluster.answer(asked, written);
        if self.life >= RESTARTS {
            return healthy;
        }
        self.watching.insert(Kind::of(asked));
        self.dying(healthy, written)
    }

    /// An answer that is cut off after a while: between messages, within one, or at once.
    fn dying(&mut self, healthy: Reply, written: Written) -> Reply {
        let (Reply::Answer(code, pieces) | Reply::Protobuf(code, pieces)) = healthy else {
            return healthy;
        };
        let mut all = Vec::new();
        for piece in pieces {
            if let Piece::Bytes(bytes) = piece {
                all.extend(bytes);
            }
        }
        let cut = match self.dice.below(3) {
            0 => self.dice.below(all.len() + 1),
            _ => all.len(),
        };
        all.truncate(cut);
        let wait = Piece::Wait(Duration::from_secs(self.dice.below(90) as u64));
        let pieces = vec![Piece::Bytes(all), wait, Piece::Break];
        match code {
            200 => reply(written, pieces),
            _ => Reply::Answer(code, pieces),
        }
    }
}

#[test]
fn thirty_restarts_end_with_the_rules_of_a_fresh_list() {
    for seed in 1..=20 {
        let server = Arc::new(Mutex::new(Server {
            cluster: Cluster::small(),
            dice: Dice::new(seed),
            life: 0,
            refusals: 0,
            watching: HashSet::new(),
        }));
        let shared = Arc::clone(&server);
        let answer = move |asked: &Asked| shared.lock().unwrap().answer(asked);
        let found = restored(Duration::from_secs(6 * 3600), answer);
        let server = server.lock().unwrap();
        assert_eq!(server.life, RESTARTS, "{seed}");
        found.ends_as(&listed(&server.cluster), seed);
    }
}
