//! Messages in protobuf, written field by field, so that they can be wrong in any of them.

use super::script::{Piece, Reply};
pub(super) use super::scripted::{event, field, typed};

/// An object in an envelope that names no kind.
pub(super) fn enveloped(object: &[u8]) -> Vec<u8> {
    [b"k8s\0".as_slice(), &field(2, object)].concat()
}

pub(super) fn metadata(name: &str, version: &str) -> Vec<u8> {
    let parts = [
        field(1, name.as_bytes()),
        field(3, b"ns"),
        field(6, version.as_bytes()),
    ];
    field(1, &parts.concat())
}

/// An object with a field of so many bytes that nothing depends on.
pub(super) fn large(name: &str, version: &str, bytes: usize) -> Vec<u8> {
    [metadata(name, version), field(15, &vec![0; bytes])].concat()
}

/// A page of a list of Services.
pub(super) fn page(version: &str, resume: &str, object: &[u8]) -> Reply {
    let metadata = [field(2, version.as_bytes()), field(3, resume.as_bytes())].concat();
    let list = [field(1, &metadata), field(2, object)].concat();
    let body = typed(("v1", "ServiceList"), &list);
    Reply::Protobuf(200, vec![Piece::Bytes(body)])
}

pub(super) fn added(name: &str, version: &str) -> Vec<u8> {
    event("ADDED", &enveloped(&metadata(name, version)))
}

pub(super) fn end_of_list(version: &str) -> Vec<u8> {
    event("BOOKMARK", &enveloped(&end(version)))
}

/// A bookmark that ends the list of a kind.
pub(super) fn end_of_kind(types: (&str, &str), version: &str) -> Vec<u8> {
    event("BOOKMARK", &typed(types, &end(version)))
}

fn end(version: &str) -> Vec<u8> {
    let entry = [field(1, b"k8s.io/initial-events-end"), field(2, b"true")].concat();
    field(
        1,
        &[field(6, version.as_bytes()), field(12, &entry)].concat(),
    )
}

/// A stream that stays open after these.
pub(super) fn streams(messages: &[Vec<u8>]) -> Reply {
    let mut pieces: Vec<_> = messages.iter().cloned().map(Piece::Bytes).collect();
    pieces.push(Piece::Hang);
    Reply::Protobuf(200, pieces)
}
