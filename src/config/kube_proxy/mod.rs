//! KubeProxyConfiguration: every field of kube-proxy's configuration file.
//!
//! Flags and files both become this type, with kube-proxy's names for all fields, used or not, so
//! that they are validated in one place, [`resolve`](super::resolve).
//!
//! # Source
//!
//! Upstream: staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go (v1.37)

mod file;
mod sections;

pub(crate) use file::ConfigFile;
pub(super) use file::{
    HEALTHZ_PORT, IgnoredFields, METRICS_PORT, OFF, Unreadable, change, complete_address,
    differing, field, field_mut, read,
};
pub(super) use sections::{
    ClientConnection, DEFAULT_SERVICE_DISPATCH, FormatOptions, KubeProxyConfiguration, VModule,
};
