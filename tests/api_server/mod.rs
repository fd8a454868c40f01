//! The client of the API server, whatever answers in that server's place: answers that are cut off
//! anywhere, refused, repeated, flooded, or from another time. In the end the rules are those of a
//! fresh list.
//!
//! It happens in virtual time, without a socket, but for certificates of clients.

#[path = "../support/scripted.rs"]
mod scripted;

mod answers;
mod client_certificate;
mod cluster;
mod cuts;
mod growth;
mod logged;
mod node;
mod restarts;

use std::time::Duration;

use cluster::Written;

const WRITTEN: [Written; 2] = [Written::Json, Written::Protobuf];
const MINUTE: Duration = Duration::from_secs(60);
