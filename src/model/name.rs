//! Names of Services, of their ports and of EndpointSlices.
//!
//! The spelling of a service port's name is an interface: names of chains are hashes of it, and it
//! is in the comments of rules.

use std::fmt;
use std::sync::Arc;

use crate::net::Protocol;

/// Namespace and name of a Service. Cheap to clone; ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(Arc<str>);

impl ServiceName {
    /// Joins namespace and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Returns `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the slash.
    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// Returns the part after the slash.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Service, port name and protocol: the owner of chains.
///
/// [`Display`](fmt::Display) writes `namespace/name:port`, or `namespace/name` without a port
/// name. The protocol is not part of it: a TCP and a UDP port can have the same spelling.
///
/// Upstream: pkg/proxy/types.go, `ServicePortName.String` (v1.36)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServicePortName<'a> {
    /// Service.
    pub service: &'a ServiceName,
    /// Name of the port; empty without one.
    pub port: &'a str,
    /// Distinguishes ports of the same name.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePortName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.service.as_str())?;
        if !self.port.is_empty() {
            f.write_str(":")?;
            f.write_str(self.port)?;
        }
        Ok(())
    }
}

/// Namespace and name of an EndpointSlice. Cheap to clone; ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceName(Arc<str>);

impl SliceName {
    /// Joins namespace and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Returns `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SliceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SliceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
