//! Every status code, floods, twins, and servers of another time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;

use super::cluster::{Cluster, Kind, Written, expired, reply, service, slice, status};
use super::node::{followed, listed};
use super::scripted::{Asked, Piece, Reply};
use super::{MINUTE, WRITTEN};
use crate::support::left_out::{Part, is_left_out};

/// Requests for a kind that are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Streams,
    Pages,
    Watches,
}

impl Refused {
    fn is(self, asked: &Asked) -> bool {
        let is_stream = asked.value("sendInitialEvents").is_some();
        match self {
            Self::Streams => is_stream,
            Self::Pages => !asked.is_watch(),
            Self::Watches => asked.is_watch() && !is_stream,
        }
    }
}

fn changed() -> Cluster {
    let mut cluster = Cluster::small();
    cluster.set(Kind::Service, service("a", 80));
    cluster.set(Kind::Slice, slice("a", 2));
    cluster
}

/// Twice each, as a status, as a web page, and with nothing. A run that leaves out cases has one of
/// the three for each code.
#[test]
fn every_status_code_passes() {
    let expected = listed(&changed());
    for code in 100..=599 {
        let page = Reply::With(
            code,
            vec![("content-type", "text/html")],
            vec![Piece::Text("<h1>".to_owned())],
        );
        let replies = [
            status(code, "Because"),
            page,
            Reply::Answer(code, Vec::new()),
        ];
        let all = [Refused::Streams, Refused::Pages, Refused::Watches];
        for (number, (reply, refused)) in (0..).zip(replies.into_iter().zip(all)) {
            if is_left_out(Part::MoreCases) && code % 3 != number {
                continue;
            }
            let (before, after) = (Cluster::small(), changed());
            let mut times = 0;
            let found = followed(MINUTE * 4, move |asked| {
                if refused == Refused::Pages && asked.value("sendInitialEvents").is_some() {
                    return status(400, "Invalid");
                }
                if refused.is(asked) && times < 6 {
                    times += 1;
                    return reply.clone();
                }
                if refused == Refused::Watches && times == 0 {
                    // A list, so that there is something to watch from.
                    let initial = before.initial(Kind::of(asked), Written::Json);
                    let pieces = initial.into_iter().map(Piece::Bytes);
                    return super::cluster::reply(Written::Json, pieces.collect());
                }
                after.answer(asked, Written::Json)
            });
            found.ends_as(&expected, (code, refused));
        }
    }
}

/// An error of one kind does not stop the others, and passes.
#[test]
fn one_kind_may_be_refused_for_an_hour() {
    let expected = listed(&changed());
    for code in [401, 403, 404, 429, 500, 503] {
        for refused in [Kind::Service, Kind::Slice, Kind::Node] {
            let (cluster, mut began, mut others) = (changed(), None, HashSet::new());
            let listed_meanwhile = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&listed_meanwhile);
            let found = followed(MINUTE * 61, move |asked| {
                let began = *began.get_or_insert_with(Instant::now);
                let kind = Kind::of(asked);
                if kind == refused && began.elapsed() < MINUTE * 60 {
                    return status(code, "Forbidden");
                }
                if began.elapsed() < MINUTE {
                    others.insert(kind);
                    count.store(others.len(), Ordering::Relaxed);
                }
                cluster.answer(asked, Written::Protobuf)
            });
            found.ends_as(&expected, (code, refused));
            assert_eq!(listed_meanwhile.load(Ordering::Relaxed), 2, "{code}");
        }
    }
}

/// The messages of a kind, then all the rest of the cluster as it is.
fn streams(
    kind: Kind,
    cluster: Cluster,
    written: Written,
    messages: Vec<Vec<u8>>,
) -> impl FnMut(&Asked) -> Reply {
    let mut stream = Some(messages);
    move |asked| {
        let stream = (Kind::of(asked) == kind).then(|| stream.take()).flatten();
        match stream {
            Some(messages) => {
                let pieces = vec![Piece::Bytes(messages.concat()), Piece::Hang];
                reply(written, pieces)
            }
            None => cluster.answer(asked, written),
        }
    }
}

#[test]
fn floods_pass() {
    for written in WRITTEN {
        let before = Cluster::small();
        let (mut after, mut messages) = (before.clone(), before.initial(Kind::Slice, written));
        after.set(Kind::Service, service("a", 80));
        for round in (0..200).cycle().take(2000) {
            let last = after.version();
            after.set(Kind::Slice, slice("a", round));
            // The change and a bookmark, each twice, and blank lines where there are lines.
            let change = after.changes(Kind::Slice, last, written).concat();
            let blank = if written == Written::Json {
                "\n\r\n  \n"
            } else {
                ""
            };
            messages.push([&change, &change, blank.as_bytes()].concat());
        }
        let expected = listed(&after);
        let answer = streams(Kind::Slice, after, written, messages);
        followed(MINUTE, answer).ends_as(&expected, written);
    }
}

#[test]
fn twins_end_as_the_last_of_them() {
    for written in WRITTEN {
        let before = Cluster::small();
        let mut after = before.clone();
        for name in ["a", "b", "c", "d"] {
            after.set(Kind::Slice, slice(name, 9));
            after.set(Kind::Service, service(name, 80));
        }
        let twins = after.version();
        // Changed twice, gone and back, there and gone, and gone twice; each in one piece.
        after.set(Kind::Service, service("a", 81));
        after.set(Kind::Service, service("a", 82));
        after.delete(Kind::Service, "b");
        after.set(Kind::Service, service("b", 83));
        after.delete(Kind::Service, "c");
        after.set(Kind::Service, service("c", 84));
        after.delete(Kind::Service, "c");
        after.delete(Kind::Service, "d");
        let again = after.changes(Kind::Service, twins, written);
        let messages = [
            before.initial(Kind::Service, written),
            after.changes(Kind::Service, before.version(), written),
            again,
        ];
        let expected = listed(&after);
        let answer = streams(Kind::Service, after, written, messages.concat());
        followed(MINUTE, answer).ends_as(&expected, written);
    }
}

/// A server whose store was put back to an earlier state: it knows nothing of versions to come.
#[test]
fn a_server_that_went_back_in_time_is_listed_again() {
    for refusal in [
        status(504, "Timeout"),
        status(500, "InternalError"),
        expired(),
    ] {
        let (before, after) = (Cluster::small(), changed());
        let expected = listed(&before);
        let (mut requests, again) = (0, refusal.clone());
        let found = followed(MINUTE * 5, move |asked| {
            requests += 1;
            if requests <= 3 {
                let initial = after.initial(Kind::of(asked), Written::Protobuf);
                let pieces = initial.into_iter().map(Piece::Bytes).chain([Piece::Break]);
                return reply(Written::Protobuf, pieces.collect());
            }
            let version = asked
                .value("resourceVersion")
                .map_or(0, |version| version.parse().unwrap());
            if version > before.version() {
                return again.clone();
            }
            before.answer(asked, Written::Protobuf)
        });
        found.ends_as(&expected, &refusal);
    }
}
