//! HTTP server, and the pages of the metrics port.

mod listen;
mod metrics_pages;
mod server;
mod zpages;

pub(crate) use listen::{ListenError, listen, listen_in_family, listen_retrying};
pub(crate) use metrics_pages::{MetricsPages, PageSettings};
pub(crate) use server::{
    ConnectionLimit, Reply, TEXT, is_of_this_node, not_found, reply, serve, serve_within, streamed,
};
