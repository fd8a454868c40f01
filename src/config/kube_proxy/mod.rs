//! KubeProxyConfiguration: what kube-proxy's file says, and what its flags amount to.
//!
//! Apart from the options of our modules because it has kube-proxy's words, all of them, whether
//! they mean anything to us or not. Flags and files both become this, so that they are validated
//! once, in [`resolve`](super::resolve).
//!
//! # Source
//!
//! Upstream: staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go (v1.36)

mod defaults;
mod logging;
mod read;
mod sections;
mod tree;
mod write;

pub(super) use defaults::{HEALTHZ_PORT, METRICS_PORT, OFF, add_port};
pub(super) use logging::{FlushFrequency, FormatOptions, Logging, Quantity, VModule};
pub(super) use read::{Unreadable, quoted, read};
pub(super) use sections::{ClientConnection, KubeProxyConfiguration};
pub(super) use tree::differing;
#[cfg(test)]
pub(super) use tree::leaves;
