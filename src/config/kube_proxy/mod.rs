//! KubeProxyConfiguration: every field of kube-proxy's configuration file.
//!
//! Flags and files both become this type, with kube-proxy's names for all fields, used or not, so
//! that they are validated in one place, [`resolve`](super::resolve).
//!
//! # Source
//!
//! Upstream: staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go (v1.37)

mod fields;
mod sections;
mod text;

pub(super) use fields::{
    HEALTHZ_PORT, METRICS_PORT, OFF, change, complete_address, differing, field, field_mut, quoted,
};
pub(super) use sections::{ClientConnection, DEFAULT_SERVICE_DISPATCH, KubeProxyConfiguration};
pub(super) use sections::{FormatOptions, VModule};
pub(crate) use text::ConfigFile;
pub(super) use text::{IgnoredFields, Unreadable, read};
