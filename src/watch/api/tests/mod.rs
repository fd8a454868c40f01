//! Lists and watches of a server that responds from a script, in virtual time.

mod connections;
mod credentials;
mod failures;
mod freshness;
mod garbage;
mod hostile;
mod initial_streams;
mod library;
mod lists;
mod pace;
mod pipe;
mod protobuf;
mod raw_http;
mod retry;
mod script;
#[path = "../../../../tests/support/scripted.rs"]
pub(in crate::watch) mod scripted;
mod watches;
mod wire;
