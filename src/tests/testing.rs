//! Items that tests and benchmarks use. With `cli::main`, they are all that the library exports; a
//! release exports only that.

/// Items of `cli`.
pub mod cli {
    pub use crate::cli::past_rules;
}
/// Items of `config`.
pub mod config {
    pub use crate::config::{Cli, Command, Config, Source, Unusable, run};
}
/// Items of `conntrack`.
pub mod conntrack {
    pub use crate::conntrack::{Filter, Flow, stale_candidates};
}
/// Items of `host`.
pub mod host {
    pub use crate::host::{
        BackendChoice, Binaries, Conntrack, CounterError, Exec, Fake, Fault, FlowTable, Iptables,
        ListedChains, ProgramExit, RestoreError, Restored, RunError, local_addresses,
        nft_generation,
    };
}
/// Items of `ingest`.
pub mod ingest {
    pub use crate::ingest::{
        ClientIpConfig, EndpointObject, EndpointSliceObject, Ingress, Interner, MapEntry, Named,
        NodeAddress, NodeObject, ServiceObject, ServicePortObject, SessionAffinityConfig,
        SlicePortObject, endpoint_slice, node, service,
    };
}
/// Items of `inspect`.
pub mod inspect {
    /// Items of `inspect::catalog`.
    pub mod catalog {
        pub use crate::inspect::catalog::{
            Catalog, Policy, PortName, PortView, RulesetSource, TrafficOrigin,
        };
    }
    /// Items of `inspect::diff`.
    pub mod diff {
        pub use crate::inspect::diff::{
            ManifestFacts, PortChange, Review, RulesetText, compare, json, text, unified,
        };
    }
    /// Items of `inspect::explain`.
    pub mod explain {
        pub use crate::inspect::explain::{
            ClientSelection, NodeRules, PacketPath, PathResult, SeenSource, explain,
        };
    }
}
/// Items of `model`.
pub mod model {
    pub use crate::model::{
        Change, Endpoint, ExternalIps, Kind, NamespaceLimits, Node, NodeHint, Service, ServiceName,
        ServicePort, Services, Slice, SliceName, SlicePort, Topology, TrafficPolicy,
    };
}
/// Items of `net`.
pub mod net {
    pub use crate::net::{IpFamily, IpNet, Port, Protocol, parse_cidr, parse_ip};
}
/// Items of `render`.
pub mod render {
    pub use crate::render::{
        AppliedState, Counter, FullPayload, JUMPS, LARGE_CLUSTER_ENDPOINTS, LiveChains, LiveRules,
        LocalDetector, LocalMode, Masquerade, NodePortAddressItem, Options, PartialRestore,
        PayloadStats, RenderSettings, RuleCounts, ServiceTotals, TreeThresholds, guarded_chains,
        has_desired_rules, is_service_chain, partial_payload,
    };
    pub use crate::ruleset::flattened;
}
/// Items of `rules`.
pub mod rules {
    pub use crate::rules::{
        Backend, BridgePort, Comparison, HostLookup, Match, Packet, Payload, RoutedPacket, Rule,
        RuleSet, SetElement, Share, Side, Table, Text, TracedNode, Verdict, trace,
    };
}
/// Items of `ruleset`.
pub mod ruleset {
    pub use crate::ruleset::KUBE_PROXY_CANARY;
}
/// Items of `select`.
pub mod select {
    pub use crate::select::{EndpointGroups, select};
}
/// Items of `sync`.
pub mod sync {
    pub use crate::sync::{
        Attempt, Failure, FullReason, Outcome, QuarantineCause, Scope, SyncResult, Syncer,
        SyncerOptions,
    };
}
/// Items of `tracker`.
pub mod tracker {
    pub use crate::tracker::Tracker;
}
/// Items of `watch`.
pub mod watch {
    pub use crate::watch::{ChangeReceivers, Ingester, SourceEvent, change_channels};
    /// Items of `watch::api`.
    pub mod api {
        pub use crate::watch::api::{
            ApiClient, ApiOptions, Decodable, Encoding, Observer, ProxyEnvironment, RateLimit,
            ReflectorEvent, Selector, build_client, list_and_watch, snapshot,
        };
    }
}
