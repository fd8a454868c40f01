//! `options` statements: the flags of the proxy, with upstream's test conventions as defaults.

use std::net::IpAddr;
use std::time::Duration;

use deltaproxy::testing::model::{ExternalIps, NamespaceLimits};
use deltaproxy::testing::net::{IpFamily, IpNet, parse_cidr, parse_ip};
use deltaproxy::testing::render::{self, LocalDetector, PartialRestore};
use deltaproxy::testing::render::{LocalMode, NodePortAddressItem, RenderSettings};
use deltaproxy::testing::rules::Backend;
use deltaproxy::testing::sync::SyncerOptions;

use super::text::Statement;

/// Everything that is fixed for a scenario.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The one family that the scenario is about.
    pub(crate) family: IpFamily,
    /// Whether the kernel has nfacct: `options nfacct`.
    pub(crate) keeps_counters: bool,
    /// Limits of each namespace: `options namespace-endpoints=9 namespace-rules=9`.
    pub(crate) limits: NamespaceLimits,
    /// Options of the syncer.
    pub(crate) syncer: SyncerOptions,
}

impl Options {
    /// Reads the `options` statements, wherever they are.
    pub(crate) fn read(statements: &[Statement]) -> Result<Self, (usize, String)> {
        let statements = statements
            .iter()
            .filter(|s| s.words.first().is_some_and(|word| word == "options"));
        let mut options = Self::defaults(IpFamily::V4);
        for statement in statements {
            for word in statement.words.iter().skip(1) {
                let set = options.set(word);
                set.map_err(|error| (statement.line, format!("{word}: {error}")))?;
            }
        }
        Ok(options)
    }

    /// The same for a kernel that speaks to other programs.
    pub(crate) fn with_backend(mut self, backend: Backend) -> Self {
        self.syncer.render_settings.fixed.backend = backend;
        self
    }

    fn defaults(family: IpFamily) -> Self {
        let node_ip = default_node_ip(family);
        let pods = match family {
            IpFamily::V4 => "10.0.0.0/8",
            IpFamily::V6 => "fd00:10::/48",
        };
        let render_settings = RenderSettings {
            fixed: render::Options {
                backend: Backend::Nft,
                has_localhost_node_ports: true,
                node_ip,
                ..render::Options::defaults(family)
            },
            local_mode: LocalMode::ClusterCidr(parse_cidr(pods).into_iter().collect()),
            node_port_addresses: Vec::new(),
            bind_address: None,
        };
        Self {
            family,
            keeps_counters: false,
            limits: NamespaceLimits::DEFAULT,
            syncer: SyncerOptions {
                render_settings,
                partial_restore: PartialRestore::ChangedChains,
                full_sync_interval: Duration::from_secs(3600),
            },
        }
    }

    fn set(&mut self, word: &str) -> Result<(), String> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let around = &mut self.syncer.render_settings;
        let fixed = &mut around.fixed;
        match (key, value) {
            ("family", "IPv4") => *self = Self::defaults(IpFamily::V4),
            ("family", "IPv6") => *self = Self::defaults(IpFamily::V6),
            ("cluster-cidr", "none") => around.local_mode = LocalMode::ClusterCidr(Vec::new()),
            ("cluster-cidr", _) => around.local_mode = LocalMode::ClusterCidr(cidrs(value)?),
            ("node-cidr", "") => around.local_mode = LocalMode::NodeCidr,
            ("bridge", _) => {
                around.local_mode = LocalMode::Fixed(LocalDetector::Bridge(value.into()));
            }
            ("interface-prefix", _) => {
                around.local_mode = LocalMode::Fixed(LocalDetector::InterfacePrefix(value.into()));
            }
            ("masquerade-all", "") => fixed.masquerade.is_for_all = true,
            ("masquerade-bit", _) => fixed.masquerade.bit = number(value)?,
            ("random-fully", "off") => fixed.masquerade.is_random_fully = false,
            ("localhost-nodeports", "off") => {
                fixed.has_localhost_node_ports = false;
            }
            ("nodeport-addresses", _) => {
                let items = value.split(',').map(|item| match item {
                    "primary" => Ok(NodePortAddressItem::Primary),
                    text => cidr(text).map(NodePortAddressItem::Network),
                });
                around.node_port_addresses = items.collect::<Result<_, _>>()?;
            }
            ("bind-address", _) => around.bind_address = Some(ip(value)?),
            ("external-ips", "off") => fixed.external_ips = ExternalIps::Ignored,
            ("be-liberal", "") => fixed.drops_invalid_packets = false,
            ("large-cluster", _) => fixed.large_cluster_endpoints = number(value)?,
            ("partial-restore", "kep-3453") => {
                self.syncer.partial_restore = PartialRestore::Kep3453;
            }
            ("namespace-endpoints", _) => self.limits.endpoints = number(value)?,
            ("namespace-rules", _) => self.limits.rules_without_endpoints = number(value)?,
            ("nfacct", "") => self.keeps_counters = true,
            _ => return Err("no such option".to_owned()),
        }
        Ok(())
    }
}

/// The address that a node has if the scenario does not say.
pub(crate) fn default_node_ip(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::from([192, 168, 0, 2]),
        IpFamily::V6 => IpAddr::from([0xfd00, 0x192, 0, 0, 0, 0, 0, 2]),
    }
}

pub(crate) fn ip(text: &str) -> Result<IpAddr, String> {
    parse_ip(text).ok_or_else(|| format!("`{text}` is no address"))
}

fn cidr(text: &str) -> Result<IpNet, String> {
    parse_cidr(text).ok_or_else(|| format!("`{text}` is not a valid CIDR"))
}

fn cidrs(text: &str) -> Result<Vec<IpNet>, String> {
    text.split(',').map(cidr).collect()
}

pub(crate) fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no such number"))
}
