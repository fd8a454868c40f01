//! Following a server that answers from a script, in paused time.

mod connections;
mod failures;
mod freshness;
mod garbage;
mod hostile;
mod initial_streams;
mod lists;
mod opening;
mod pace;
mod pipe;
mod protobuf;
mod pure;
mod raw_http;
mod script;
#[path = "../../../../tests/support/scripted.rs"]
mod scripted;
mod watches;
mod wire;
