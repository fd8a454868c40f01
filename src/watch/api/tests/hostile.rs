//! Whatever an API server sends, or who stands in its place.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::super::encoding::Encoding;
use super::super::event::Event;
use super::super::object::Object;
use super::super::page::Page;
use super::super::raw::Raw;
use super::super::status::Status;
use super::super::{answer, envelope, frame, line};
use crate::hostile::{bytes, cases, mutated, mutated_text, text};
use crate::ingest::{self, EndpointSliceObject, Interner, NodeObject, ServiceObject};

/// Events and lists in both encodings, written by the API's own encoder.
fn samples() -> Vec<Vec<u8>> {
    let mut unread = BytesMut::from(&include_bytes!("../../../../tests/wire/watch.protobuf")[..]);
    let mut samples = Vec::new();
    while let Ok(Some(message)) = frame::take(&mut unread) {
        samples.push(message.to_vec());
    }
    let objects: [&[u8]; 3] = [
        include_bytes!("../../../../tests/wire/service.json"),
        include_bytes!("../../../../tests/wire/endpoint-slice.json"),
        include_bytes!("../../../../tests/wire/node.json"),
    ];
    for object in objects {
        samples.push([b"{\"type\":\"ADDED\",\"object\":", object, b"}"].concat());
        samples.push(
            [
                b"{\"metadata\":{\"continue\":\"x\"},\"items\":[",
                object,
                b"]}",
            ]
            .concat(),
        );
        samples.push(object.to_vec());
    }
    samples.push(include_bytes!("../../../../tests/wire/service-list.protobuf").to_vec());
    samples.push(include_bytes!("../../../../tests/wire/service.protobuf").to_vec());
    samples.push(include_bytes!("../../../../tests/wire/endpoint-slice.protobuf").to_vec());
    samples.push(include_bytes!("../../../../tests/wire/node.protobuf").to_vec());
    samples
}

const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Protobuf];

/// What comes next once an object could be read.
fn ingested(raw: &Raw<'_>) {
    let mut interner = Interner::default();
    if let Ok(object) = Object::<ServiceObject>::read(raw).state {
        let (_, _, notes) = ingest::service(&object, &mut interner);
        assert!(
            notes
                .iter()
                .all(|note| !note.to_string().contains(char::is_control))
        );
    }
    if let Ok(object) = Object::<EndpointSliceObject>::read(raw).state {
        let notes = ingest::endpoint_slice(&object, "here", &mut interner).diagnostics;
        assert!(
            notes
                .iter()
                .all(|note| !note.to_string().contains(char::is_control))
        );
    }
    if let Ok(object) = Object::<NodeObject>::read(raw).state {
        let (_, notes) = ingest::node(&object);
        assert!(
            notes
                .iter()
                .all(|note| !note.to_string().contains(char::is_control))
        );
    }
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn any_message_is_an_event_or_an_error(message in mutated(samples())) {
        let message = Bytes::from(message);
        for encoding in ENCODINGS {
            let _ = Event::<ServiceObject>::read(encoding, &message);
            let _ = Event::<EndpointSliceObject>::read(encoding, &message);
            let _ = Event::<NodeObject>::read(encoding, &message);
        }
        let _ = envelope::open(message);
    }

    #[test]
    fn any_body_is_a_list_or_an_error(body in mutated(samples())) {
        for encoding in ENCODINGS {
            let page = Page::new(body.clone(), encoding);
            for object in page.contents::<ServiceObject>().iter().flat_map(|page| &page.objects) {
                ingested(object);
            }
        }
    }

    #[test]
    fn any_object_is_ingested_or_named(object in mutated(samples())) {
        ingested(&Raw::Protobuf(Bytes::from(object.clone())));
        if let Ok(text) = serde_json::from_slice(&object) {
            ingested(&Raw::Json(text));
            let problem = Object::<ServiceObject>::read(&Raw::Json(text)).state.err();
            let shown = problem.map(|problem| problem.to_string());
            prop_assert!(!shown.unwrap_or_default().contains(char::is_control));
        }
    }

    /// What is read of a message is written and read as the same.
    #[test]
    fn messages_are_read_as_they_are_written(object in mutated(samples())) {
        if let Ok(object) = ServiceObject::decode(&*object) {
            prop_assert_eq!(ServiceObject::decode(&*object.encode_to_vec()), Ok(object));
        }
        if let Ok(object) = EndpointSliceObject::decode(&*object) {
            prop_assert_eq!(EndpointSliceObject::decode(&*object.encode_to_vec()), Ok(object));
        }
    }

    /// However a stream is cut into pieces, its lines are the same.
    #[test]
    fn lines_do_not_depend_on_the_pieces(pieces in vec(bytes(), 0..8)) {
        let (mut unread, mut searched) = (BytesMut::new(), 0);
        let mut lines = Vec::new();
        for piece in &pieces {
            unread.extend_from_slice(piece);
            while let Some(line) = line::take(&mut unread, &mut searched).unwrap() {
                lines.push(line);
            }
        }
        let whole = pieces.concat();
        let ends = memchr::memchr_iter(b'\n', &whole).count();
        prop_assert_eq!(lines.len(), ends);
        lines.push(unread.clone().freeze());
        prop_assert_eq!(lines.concat(), whole);
        let _ = line::rest(&mut unread);
    }

    #[test]
    fn any_error_of_a_server_is_short(code: u16, body in mutated(samples())) {
        for encoding in ENCODINGS {
            let error = Status::of_body(code, encoding, body.clone()).into_error(None);
            prop_assert!(error.to_string().chars().count() < 100 + 300 + 400);
        }
    }

    #[test]
    fn any_header_has_a_meaning(value in mutated_text(&["120", "application/json", "Fri, 31 Dec 1999 23:59:59 GMT"]), types in text()) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.insert("retry-after", value.clone());
            headers.insert("content-type", value);
        }
        let pause = answer::retry_after(&headers).unwrap_or_default();
        prop_assert!(pause.as_secs() <= 60);
        let _ = (Encoding::of(&headers), Encoding::preferred(&types));
    }
}
