//! Responses in protobuf, valid and invalid.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::encoding::{self, Encoding};
use super::super::watch::WatchEvent;
use super::script::{Piece, Reply, check, ends, open, page, service, status};
use super::wire::*;
use crate::ingest::ServiceObject;

/// A list of `cart` and `bare`, as an API server encodes it; there is a next page.
pub(super) const LIST: &[u8] = include_bytes!("../../../../tests/wire/service-list.protobuf");

#[test]
fn pages_of_an_api_server_are_decoded() {
    check(
        vec![
            status(400, "BadRequest"),
            Reply::Protobuf(200, vec![Piece::Bytes(LIST.to_vec())]),
            // The next server behind the same address may be an older one.
            page("9", "", &[service("a", "1")]),
        ],
        &[
            "watch",
            "list limit=1000: listing, set cart, set bare",
            "list limit=1000 continue=next: set a, listed",
            "watch after=9",
        ],
    );
}

#[test]
fn an_undecodable_object_does_not_affect_others() {
    // `spec` is cut off.
    let bad = [metadata("bad", "2"), vec![2 << 3 | 2, 99]].concat();
    let messages = [
        added("a", "1"),
        event("ADDED", &enveloped(&bad)),
        added("b", "3"),
        event("NEWS", b"of another time"),
        end_of_list("4"),
    ];
    check(
        vec![streams(&messages)],
        &["watch: listing, set a, undecodable ns/bad, set b, listed"],
    );
}

#[test]
fn invalid_utf8_in_an_unused_field_is_ignored() {
    // A label, an annotation, and a finalizer.
    let entry = [field(1, b"a\xff"), field(2, b"\xc3\x28")].concat();
    let odd = [
        field(1, b"a"),
        field(3, b"ns"),
        field(6, b"1"),
        field(11, &entry),
        field(12, &entry),
        field(14, b"\xff"),
    ];
    let added = event("ADDED", &enveloped(&field(1, &odd.concat())));
    check(
        vec![streams(&[added, end_of_list("4")])],
        &["watch: listing, set a, listed"],
    );
}

#[test]
fn a_status_with_an_invalid_message_is_decoded() {
    let parts = [field(3, b"too \xff old"), field(4, b"Expired")].concat();
    let error = event("ERROR", &enveloped(&parts));
    check(
        vec![
            streams(&[end_of_list("4"), error]),
            streams(&[end_of_list("9")]),
        ],
        &[
            "watch: listing, listed, failed expired",
            "watch: listing, listed",
        ],
    );
}

#[test]
fn statuses_in_protobuf_are_decoded() {
    let parts = [field(3, b"too old"), field(4, b"Expired")].concat();
    let gone = [enveloped(&parts)].map(Piece::Bytes).to_vec();
    let error = event("ERROR", &enveloped(&field(4, b"InternalError")));
    check(
        vec![
            streams(&[end_of_list("4"), error]),
            Reply::Protobuf(410, gone),
        ],
        &[
            "watch: listing, listed, failed 0",
            "watch after=4: failed expired",
            "watch",
        ],
    );
}

#[test]
fn a_server_that_rejects_protobuf_gets_a_request_for_json() {
    for code in [406, 415] {
        check(
            vec![
                status(code, "NotAcceptable"),
                open(&[super::script::end_of_list("4")]),
            ],
            &["watch", "watch as json: listing, listed"],
        );
    }
}

#[test]
fn a_server_that_rejects_both_encodings_gets_requests_at_growing_delays() {
    let mut script = vec![status(406, "NotAcceptable"); 3];
    script.push(ends(&[]));
    check(
        script,
        &[
            "watch",
            "watch as json",
            "list limit=1000",
            "list limit=1000 as json: failed protocol error",
            "list limit=1000",
        ],
    );
}

#[test]
fn the_first_supported_media_type_is_preferred() {
    for (types, expected) in [
        ("application/vnd.kubernetes.protobuf", Encoding::Protobuf),
        ("application/json", Encoding::Json),
        (
            "application/json, application/vnd.kubernetes.protobuf",
            Encoding::Json,
        ),
        (
            "a/b, application/vnd.kubernetes.protobuf;q=1, application/json",
            Encoding::Protobuf,
        ),
        ("application/yaml", Encoding::Json),
        ("", Encoding::Json),
    ] {
        assert_eq!(Encoding::preferred(types), expected, "{types}");
    }
    assert_eq!(Encoding::Json.accept_stream(), "application/json");
}

proptest! {
    /// Any bytes: no panic, no invented frame, and no memory for absent bytes.
    #[test]
    fn any_bytes_are_frames_or_an_error(bytes in vec(any::<u8>(), 0..200), small in any::<bool>()) {
        let mut unread = BytesMut::from(&*bytes);
        if let (true, Some(length)) = (small, unread.first_chunk_mut::<3>()) {
            *length = [0; 3];
        }
        let mut left = unread.len();
        while let Ok(Some(found)) = encoding::take_frame(&mut unread) {
            prop_assert_eq!(left, unread.len() + found.len() + 4);
            left = unread.len();
            let _ = WatchEvent::<ServiceObject>::decode(Encoding::Protobuf, &found);
        }
        prop_assert!(unread.capacity() <= bytes.len().max(64));
    }
}
