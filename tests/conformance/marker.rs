//! How to know that a program has seen everything: a Service of our own, changed after each step.
//!
//! A watch delivers the changes of one kind of object in their order. When the rules show the
//! marker's newest port number and its newest endpoint, every earlier change of a Service and of
//! an EndpointSlice has been taken in by the sync that wrote them, or by one before it.

use serde_json::{Value, json};

use super::support::rules::Family;

/// The namespace that all objects of the histories are beside, not in.
pub const NAMESPACE: &str = "marker";

/// Stays clear of the first thousand, which the histories use.
const FIRST_PORT: u64 = 1000;
const PORTS: u64 = 60_000;

/// What the marker says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Marker {
    /// How often the Service has changed.
    services: u64,
    /// How often the slices have changed.
    slices: u64,
}

impl Marker {
    /// What it says next, to follow changes of every kind.
    pub fn next(self) -> Self {
        Self {
            services: self.services + 1,
            slices: self.slices + 1,
        }
    }

    /// What it says next, to make a program sync without leaving a chain behind.
    pub fn next_service(self) -> Self {
        Self {
            services: self.services + 1,
            ..self
        }
    }

    /// The objects to write.
    pub fn objects(self) -> [Value; 3] {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "marker", "namespace": NAMESPACE},
            "spec": {
                "ipFamilyPolicy": "RequireDualStack",
                "ports": [{"port": self.port()}],
            },
        });
        [service, self.slice(Family::V4), self.slice(Family::V6)]
    }

    /// Texts that are all in the saved nat table once a program has seen it.
    pub fn signs(self, family: Family) -> [String; 2] {
        let endpoint = match family {
            Family::V4 => format!("{}:7", self.endpoint(family)),
            Family::V6 => format!("[{}]:7", self.endpoint(family)),
        };
        [
            format!("--dport {} ", self.port()),
            format!("--to-destination {endpoint}"),
        ]
    }

    fn port(self) -> u64 {
        FIRST_PORT + self.services % PORTS
    }

    fn endpoint(self, family: Family) -> String {
        let (high, low) = (self.slices / 250 % 250, self.slices % 250 + 1);
        match family {
            Family::V4 => format!("10.251.{high}.{low}"),
            Family::V6 => format!("fd00:251::{}:{low:x}", high + 1),
        }
    }

    fn slice(self, family: Family) -> Value {
        let (name, kind) = match family {
            Family::V4 => ("marker-v4", "IPv4"),
            Family::V6 => ("marker-v6", "IPv6"),
        };
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": "marker"},
            },
            "addressType": kind,
            "endpoints": [{"addresses": [self.endpoint(family)]}],
            "ports": [{"port": 7}],
        })
    }
}
