//! Names: of Services, of their ports, of EndpointSlices.
//!
//! Apart because the spelling of a service port's name is an interface: it is hashed into chain
//! names and written into the comments that people grep for.

use std::fmt;
use std::sync::Arc;

use crate::net::Protocol;

/// `namespace/name` of a Service. Cheap to clone; ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(Arc<str>);

impl ServiceName {
    /// Joins the two parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the slash.
    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// The part after the slash.
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

/// One (service, port name, protocol): the thing that owns chains.
///
/// Its [`Display`](fmt::Display) form is `namespace/name:port`, or `namespace/name` if the port
/// has no name. The protocol is not part of it, so two ports can share one spelling.
///
/// Upstream: pkg/proxy/types.go, `ServicePortName.String` (v1.36)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePortName<'a> {
    /// The Service.
    pub service: &'a ServiceName,
    /// The port's name, empty if it has none.
    pub port: &'a str,
    /// Tells apart ports of the same name.
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

/// `namespace/name` of an EndpointSlice. Cheap to clone; ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceName(Arc<str>);

impl SliceName {
    /// Joins the two parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// `namespace/name`.
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
