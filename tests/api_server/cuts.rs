//! Streams and pages that are cut off at every byte.

use super::cluster::{Cluster, Kind, Written, expired, reply, service, slice, status};
use super::node::{followed, listed};
use super::scripted::{Asked, Piece, Reply};
use super::{MINUTE, WRITTEN};
use crate::cluster::Dice;
use crate::support::left_out::{Part, cases, is_left_out};

/// End of an answer that is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Orderly,
    Broken,
}

/// Before, and after some changes of each kind.
fn two_states() -> (Cluster, Cluster) {
    let before = Cluster::small();
    let mut after = before.clone();
    after.set(Kind::Service, service("a", 80));
    after.set(Kind::Slice, slice("a", 2));
    after.set(Kind::Service, service("a", 81));
    after.set(Kind::Slice, slice("a", 3));
    after.set(Kind::Service, service("b", 80));
    after.set(Kind::Slice, slice("b", 4));
    after.delete(Kind::Service, "b");
    after.delete(Kind::Slice, "b-1");
    (before, after)
}

/// The first `length` bytes.
fn beginning(bytes: &[u8], length: usize, ending: Ending) -> Vec<Piece> {
    let mut pieces = vec![Piece::Bytes(bytes[..length].to_vec())];
    if ending == Ending::Broken {
        pieces.push(Piece::Break);
    }
    pieces
}

/// Each length with one ending, and those around the end of a message with both. A run that leaves
/// out cases has a fifth of the others: of an odd number, endings alternate.
fn cuts(messages: &[Vec<u8>]) -> Vec<(usize, Ending)> {
    let ends = messages.iter().scan(0, |end, message| {
        *end += message.len();
        Some(*end)
    });
    let ends: Vec<usize> = ends.collect();
    let is_near = |at: usize| ends.iter().any(|end| end.abs_diff(at) <= 2);
    let step = if is_left_out(Part::MoreCases) { 5 } else { 1 };
    let all = 0..=messages.concat().len();
    let tried = all.filter(|at| at % step == 0 || is_near(*at));
    let cuts = tried.flat_map(|at| {
        let endings = if at % 2 == 0 {
            [Ending::Orderly, Ending::Broken]
        } else {
            [Ending::Broken, Ending::Orderly]
        };
        let count = if is_near(at) { 2 } else { 1 };
        endings
            .into_iter()
            .take(count)
            .map(move |ending| (at, ending))
    });
    cuts.collect()
}

#[test]
fn streams_may_be_cut_off_anywhere() {
    let (before, after) = two_states();
    let expected = listed(&after);
    assert_ne!(expected, listed(&before));
    for written in WRITTEN {
        for kind in [Kind::Service, Kind::Slice] {
            let initial = before.initial(kind, written);
            let changes = after.changes(kind, before.version(), written);
            let messages = [initial, changes].concat();
            let bytes = messages.concat();
            for (at, ending) in cuts(&messages) {
                let mut first = Some(reply(written, beginning(&bytes, at, ending)));
                let after = after.clone();
                let found = followed(MINUTE, move |asked| {
                    let first = (Kind::of(asked) == kind).then(|| first.take());
                    first
                        .flatten()
                        .unwrap_or_else(|| after.answer(asked, written))
                });
                found.ends_as(&expected, (written, kind, at, ending));
            }
        }
    }
}

/// A server that streams no lists, and the first page of a kind is cut off.
#[test]
fn pages_may_be_cut_off_anywhere() {
    let (_, after) = two_states();
    let expected = listed(&after);
    for written in WRITTEN {
        let whole = after.page_of(Kind::Service, written);
        for (at, ending) in cuts(std::slice::from_ref(&whole)) {
            if at == whole.len() && ending == Ending::Orderly {
                continue;
            }
            let mut first = Some(reply(written, beginning(&whole, at, ending)));
            let after = after.clone();
            let found = followed(MINUTE, move |asked| {
                if asked.value("sendInitialEvents").is_some() {
                    return status(400, "Invalid");
                }
                let is_cut = !asked.is_watch() && Kind::of(asked) == Kind::Service;
                let first = is_cut.then(|| first.take());
                first
                    .flatten()
                    .unwrap_or_else(|| after.answer(asked, written))
            });
            found.ends_as(&expected, (written, at, ending));
        }
    }
}

/// One byte at a time, and all at once.
#[test]
fn pieces_may_be_of_any_size() {
    let (before, after) = two_states();
    let expected = listed(&after);
    for written in WRITTEN {
        let bytes = [
            before.initial(Kind::Service, written),
            after.changes(Kind::Service, before.version(), written),
        ];
        let bytes = bytes.concat().concat();
        for size in [1, 2, 7, 1000, bytes.len()] {
            let pieces = bytes.chunks(size).map(|piece| Piece::Bytes(piece.to_vec()));
            let first = reply(written, pieces.chain([Piece::Hang]).collect());
            let after = after.clone();
            let found = followed(MINUTE, move |asked| match Kind::of(asked) {
                Kind::Service => first.clone(),
                _ => after.answer(asked, written),
            });
            found.ends_as(&expected, (written, size));
        }
    }
}

/// Bytes of a stream that are tried.
const TRIED: u32 = 250;

/// A stream of a kind, and then a server that has forgotten all versions but the last: whatever a
/// wrong byte made of the version to go on from, the kind is listed again.
fn forgetful(
    kind: Kind,
    written: Written,
    stream: Vec<u8>,
    after: Cluster,
) -> impl FnMut(&Asked) -> Reply {
    let pieces = vec![Piece::Bytes(stream), Piece::Hang];
    let (mut stream, mut is_listed) = (Some(reply(written, pieces)), false);
    move |asked| {
        if Kind::of(asked) != kind {
            return after.answer(asked, written);
        }
        if let Some(stream) = stream.take() {
            return stream;
        }
        is_listed |= asked.value("resourceVersion").is_none();
        if is_listed {
            after.answer(asked, written)
        } else {
            expired()
        }
    }
}

/// One bit of a stream wrong, in each of its bytes or some hundreds of them. It may read as another
/// object, which only a list can tell.
#[test]
fn any_byte_of_a_stream_may_be_wrong() {
    let (before, after) = two_states();
    let expected = listed(&after);
    let (mut dice, tried) = (Dice::new(19), cases(TRIED) as usize);
    for written in WRITTEN {
        for kind in [Kind::Service, Kind::Slice, Kind::Node] {
            let initial = before.initial(kind, written);
            let changes = after.changes(kind, before.version(), written);
            let bytes = [initial, changes].concat().concat();
            let mut places: Vec<usize> = (0..bytes.len()).collect();
            // The length of the first frame is always among them.
            dice.shuffle(&mut places[4..]);
            for &at in places.iter().take(tried) {
                let bit = dice.below(8);
                let mut wrong = bytes.clone();
                wrong[at] ^= 1 << bit;
                let answer = forgetful(kind, written, wrong, after.clone());
                followed(MINUTE * 10, answer).ends_as(&expected, (written, kind, at, bit));
            }
        }
    }
}
