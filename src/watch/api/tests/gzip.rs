//! Compressed bodies: how they are decoded, and what is wrong with some.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression as Level;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use proptest::prelude::*;

use super::super::compression::{GzipDecoder, is_gzip};
use super::script::*;
use super::scripted::PROTOBUF;
use super::wire;
use crate::hostile::{bytes, cases, mutated};

/// A whole member.
fn member(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::new(4));
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A member of two parts, the first of which can be decoded before the second has arrived.
fn flushed(first: &[u8], second: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut encoder = GzEncoder::new(Vec::new(), Level::new(4));
    encoder.write_all(first).unwrap();
    encoder.flush().unwrap();
    let beginning = encoder.get_ref().clone();
    encoder.write_all(second).unwrap();
    let end = encoder.finish().unwrap().split_off(beginning.len());
    (beginning, end)
}

/// Decodes a body that arrives in these pieces.
fn decoded<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Vec<u8>, String> {
    let (mut decoder, mut content) = (GzipDecoder::default(), Vec::new());
    for piece in pieces {
        decoder.add(Bytes::copy_from_slice(piece));
        while let Some(more) = decoder.next().map_err(|error| error.in_full())? {
            assert!((1..=32 * 1024).contains(&more.len()), "{}", more.len());
            content.extend_from_slice(&more);
        }
    }
    let end = decoder.expect_no_partial_member();
    end.map(|()| content).map_err(|error| error.in_full())
}

#[test]
fn members_follow_one_another_in_any_pieces() {
    // More than one piece of content, and a member without any.
    let long: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let body = [member(b"one "), member(&[]), member(&long)].concat();
    let expected = [b"one ".as_slice(), &long].concat();
    for size in [1, 7, 18, 4096, body.len()] {
        assert_eq!(decoded(body.chunks(size)).unwrap(), expected, "{size}");
    }
    assert_eq!(decoded([]).unwrap(), b"");
}

#[test]
fn a_member_that_is_cut_off_is_an_error() {
    let body = member(b"some text");
    for length in 1..body.len() {
        let error = decoded([&body[..length]]).unwrap_err();
        assert_eq!(error, "the body ended within a gzip member", "{length}");
    }
}

#[test]
fn corrupt_members_and_trailing_bytes_are_errors() {
    let sound = member(&b"some text ".repeat(100));
    let length = sound.len();
    // The magic number, the method, the content, the checksum and the length.
    for at in [0, 2, length / 2, length - 8, length - 4] {
        let mut body = sound.clone();
        body[at] ^= 0x55;
        let error = decoded([body.as_slice()]).unwrap_err();
        let is_invalid = error.starts_with("the response cannot be decoded: invalid gzip");
        // A wrong length of a block may ask for more than there is.
        assert!(is_invalid || at == length / 2, "{at}: {error}");
    }
    for trailing in [b"\0\0".as_slice(), b"garbage"] {
        let error = decoded([sound.as_slice(), trailing]).unwrap_err();
        assert!(error.contains("invalid gzip"), "{error}");
    }
}

#[test]
fn other_compressions_are_unsupported() {
    let of = |name: &str| {
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, name.parse().unwrap())]);
        is_gzip(&headers)
    };
    for name in ["", "identity", "Identity"] {
        assert_eq!(of(name), Ok(false));
    }
    for name in ["gzip", " GZip "] {
        assert_eq!(of(name), Ok(true));
    }
    for name in ["br", "deflate", "gzip, gzip"] {
        let expected =
            format!("unsupported Content-Encoding `{name}`: neither `gzip` nor `identity`");
        assert_eq!(of(name), Err(expected));
    }
}

const JSON_HEADERS: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("content-encoding", "gzip"),
];

fn compressed(code: u16, pieces: Vec<Piece>) -> Reply {
    Reply::With(code, JSON_HEADERS.to_vec(), pieces)
}

/// The server may flush an event without ending the member.
#[test]
fn an_event_is_passed_on_before_its_member_has_ended() {
    let list = [event("ADDED", &service("a", "3")), end_of_list("5")].concat();
    let late = event("ADDED", &service("b", "6"));
    let (beginning, end) = flushed(list.as_bytes(), late.as_bytes());
    let wait = Piece::Wait(Duration::from_secs(20));
    let pieces = vec![
        Piece::Bytes(beginning),
        wait,
        Piece::Bytes(end),
        Piece::Hang,
    ];
    let listed = ["? watch", "listing", "set a", "listed"];
    let second = Duration::from_secs(1);
    check_for(second, vec![compressed(200, pieces.clone())], &listed);
    let all = [&listed[..], &["set b"]].concat();
    check_for(second * 21, vec![compressed(200, pieces)], &all);
}

#[test]
fn each_event_may_be_a_member_in_pieces() {
    let messages = [
        wire::added("a", "3"),
        wire::end_of_list("5"),
        wire::added("b", "6"),
    ];
    let bytes: Vec<u8> = messages
        .iter()
        .flat_map(|message| member(message))
        .collect();
    for size in [1, 10, bytes.len()] {
        let headers = vec![("content-type", PROTOBUF), ("content-encoding", "gzip")];
        let pieces = bytes.chunks(size).map(|piece| Piece::Bytes(piece.to_vec()));
        // The end between two members is that of a watch.
        let script = vec![Reply::With(200, headers, pieces.collect()), open(&[])];
        let expected = [
            "? watch",
            "listing",
            "set a",
            "listed",
            "set b",
            "? watch after=6",
        ];
        check(script, &expected);
    }
}

#[test]
fn pages_and_errors_may_be_compressed() {
    let body = |text: &str| vec![Piece::Bytes(member(text.as_bytes()))];
    let list = r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#;
    let invalid = r#"{"code":400,"reason":"Invalid"}"#;
    // The reason is only in the body.
    let expired = r#"{"code":500,"reason":"Expired"}"#;
    check(
        vec![
            compressed(400, body(invalid)),
            compressed(200, body(list)),
            compressed(500, body(expired)),
            open(&[end_of_list("9")]),
        ],
        &[
            "? watch",
            "? list limit=1000",
            "listing",
            "listed",
            "? watch after=7",
            "failed expired",
            "? watch",
            "listing",
            "listed",
        ],
    );
}

#[test]
fn a_watch_that_ends_within_a_member_is_a_protocol_error() {
    let list = end_of_list("5");
    let (beginning, _) = flushed(list.as_bytes(), b"");
    check(
        vec![compressed(200, vec![Piece::Bytes(beginning)]), open(&[])],
        &[
            "? watch",
            "listing",
            "listed",
            "failed protocol error",
            "? watch after=5",
        ],
    );
}

/// 100 MB without a line end, in 100 KB: the limit of a line is 64 MiB.
#[test]
fn limits_hold_for_what_a_body_inflates_to() {
    let bomb = member(&vec![b' '; 100_000_000]);
    assert!(bomb.len() < 1_000_000, "{}", bomb.len());
    // Neither does an error page take more than its limit.
    let bomb = vec![Piece::Bytes(bomb)];
    check(
        vec![
            compressed(200, [bomb.clone(), vec![Piece::Hang]].concat()),
            compressed(500, bomb),
        ],
        &[
            "? watch",
            "listing",
            "? list limit=1000",
            "failed 500",
            "? list limit=1000",
        ],
    );
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn any_content_survives(content in bytes(), size in 1..100_usize) {
        let body = member(&content);
        prop_assert_eq!(decoded(body.chunks(size)), Ok(content));
    }

    #[test]
    fn any_body_is_decoded_or_an_error(
        body in mutated(vec![member(b"text"), [member(&[b'a'; 70_000]), member(b"")].concat()]),
        size in 1..100_usize,
    ) {
        let _ = decoded(body.chunks(size));
    }
}
