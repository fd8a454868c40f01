//! What the flags amount to: every rule that concerns more than one of them.
//!
//! Apart from [`args`](super::args) so that the daemon starts from values that are known to fit
//! together; nothing has been touched when one does not.
//!
//! Upstream: pkg/proxy/apis/config/validation/validation.go (v1.36)

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::args::{DetectLocalMode, LoggingFormat, RenderArgs, RulesArgs, RunArgs, SourceArgs};
use crate::host::BackendChoice;
use crate::net::{IpFamily, IpNet, PerFamily, parse_cidr, parse_ip};
use crate::render::{LocalhostNodePorts, MasqueradePolicy, Options, PartialRestore};
use crate::rules::Backend;
use crate::sync::{Gap, LocalMode, NodePortSource, PacerOptions, Surroundings};
use crate::watch::api::ApiOptions;

/// How often a sync is full although nothing calls for it.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `proxyutil.FullSyncPeriod` (v1.36)
pub const FULL_SYNC_PERIOD: Duration = Duration::from_secs(3600);

/// A flag that cannot be used, or not with another.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{flag}: {problem}")]
pub struct UsageError {
    /// The flag's name without dashes.
    pub flag: &'static str,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// Where objects come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An API server. Neither file nor address: the Pod's service account.
    Cluster(ApiOptions),
    /// Files.
    Manifests {
        /// A file, a folder or `-`.
        path: PathBuf,
        /// Where cluster IPs are taken from.
        service_cidrs: PerFamily<IpNet>,
    },
}

/// What rules depend on, whatever the command.
#[derive(Debug, Clone)]
pub struct RenderConfig {
    /// Where objects come from.
    pub source: Source,
    /// This node's name, lower case.
    pub node_name: String,
    /// The options of both families, as far as flags decide them.
    pub surroundings: PerFamily<Surroundings>,
    /// Which programs.
    pub backend: BackendChoice,
}

/// Everything `run` has to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// What rules depend on.
    pub rules: RenderConfig,
    /// Print instead of restoring.
    pub is_dry_run: bool,
    /// What partial restores name.
    pub shape: PartialRestore,
    /// When to sync.
    pub pacer: PacerOptions,
    /// `--iptables-sync-period`.
    pub sync_period: Duration,
    /// Where metrics are served.
    pub metrics: SocketAddr,
    /// Where health is served.
    pub healthz: SocketAddr,
    /// How much is logged.
    pub verbosity: u8,
    /// How it is logged.
    pub logging: LoggingFormat,
}

/// The meaning of `run`'s flags.
pub fn run(args: &RunArgs, host_name: &str) -> Result<Config, UsageError> {
    let sync = &args.sync;
    if sync.iptables_sync_period.is_zero() {
        return Err(usage("iptables-sync-period", "must be greater than 0"));
    }
    let gap = match sync.iptables_min_sync_period {
        Some(gap) if gap > sync.iptables_sync_period => {
            let period = sync.iptables_sync_period;
            let problem = format!("{gap:?} is more than --iptables-sync-period, {period:?}");
            return Err(usage("iptables-min-sync-period", problem));
        }
        Some(gap) => Gap::Fixed(gap),
        None => Gap::ByCost,
    };
    Ok(Config {
        rules: resolve(&args.source, &args.rules, host_name)?,
        is_dry_run: sync.dry_run,
        shape: sync.partial_restore.into(),
        pacer: PacerOptions {
            gap,
            longest_retry: sync.iptables_sync_period,
            longest_idle: FULL_SYNC_PERIOD,
        },
        sync_period: sync.iptables_sync_period,
        metrics: address(
            "metrics-bind-address",
            &args.serve.metrics_bind_address,
            10249,
        )?,
        healthz: address(
            "healthz-bind-address",
            &args.serve.healthz_bind_address,
            10256,
        )?,
        verbosity: args.serve.verbosity,
        logging: args.serve.logging_format,
    })
}

/// The meaning of `render`'s flags.
pub fn render(args: &RenderArgs, host_name: &str) -> Result<RenderConfig, UsageError> {
    resolve(&args.source, &args.rules, host_name)
}

fn resolve(
    source: &SourceArgs,
    rules: &RulesArgs,
    host_name: &str,
) -> Result<RenderConfig, UsageError> {
    let local_mode = local_mode(rules)?;
    let node_ports = node_ports(&rules.nodeport_addresses)?;
    let bind_address = bind_address(&rules.bind_address)?;
    let surroundings = PerFamily::from_fn(|family| Surroundings {
        fixed: fixed_options(rules, family),
        local_mode: local_mode.clone(),
        node_ports: node_ports.clone(),
        bind_address,
    });
    Ok(RenderConfig {
        source: objects(source)?,
        node_name: node_name(source.hostname_override.as_deref(), host_name)?,
        surroundings,
        backend: rules.iptables_backend.into(),
    })
}

fn fixed_options(rules: &RulesArgs, family: IpFamily) -> Options {
    let mut options = Options::defaults(family);
    options.masquerade.bit = rules.iptables_masquerade_bit;
    if rules.masquerade_all {
        options.masquerade.policy = MasqueradePolicy::All;
    }
    if !rules.iptables_localhost_nodeports {
        options.localhost_node_ports = LocalhostNodePorts::Refused;
    }
    if BackendChoice::from(rules.iptables_backend) == BackendChoice::Nft {
        options.backend = Backend::Nft;
    }
    options
}

fn objects(args: &SourceArgs) -> Result<Source, UsageError> {
    let Some(path) = args.manifests.clone() else {
        let (kubeconfig, master) = (args.kubeconfig.clone(), args.master.clone());
        return Ok(Source::Cluster(ApiOptions {
            kubeconfig: kubeconfig.filter(|path| !path.as_os_str().is_empty()),
            master: master.filter(|master| !master.is_empty()),
        }));
    };
    let flag = "manifests-service-cidr";
    let cidrs = pair(flag, &args.manifests_service_cidr)?;
    let of = |family| {
        cidrs
            .iter()
            .copied()
            .find(|cidr| IpFamily::of_cidr(*cidr) == family)
    };
    match (of(IpFamily::V4), of(IpFamily::V6)) {
        (Some(v4), Some(v6)) => Ok(Source::Manifests {
            path,
            service_cidrs: PerFamily { v4, v6 },
        }),
        _ => Err(usage(flag, "needs one network of each family")),
    }
}

fn node_name(chosen: Option<&str>, host_name: &str) -> Result<String, UsageError> {
    let name = match chosen {
        Some(name) if !name.is_empty() && name.trim().is_empty() => "",
        Some(name) if !name.is_empty() => name,
        _ => host_name,
    };
    let name = name.trim().to_lowercase();
    if name.is_empty() {
        return Err(usage("hostname-override", "the node's name is empty"));
    }
    Ok(name)
}

fn local_mode(rules: &RulesArgs) -> Result<LocalMode, UsageError> {
    let required = |flag, value: &str| match value {
        "" => Err(usage(flag, "is required by this --detect-local-mode")),
        name if name.contains(|c: char| c.is_whitespace() || c == '"') || name.len() > 15 => {
            Err(usage(flag, format!("`{name}` is no interface name")))
        }
        name => Ok(name.into()),
    };
    Ok(
        match rules
            .detect_local_mode
            .unwrap_or(DetectLocalMode::ClusterCidr)
        {
            DetectLocalMode::ClusterCidr if rules.cluster_cidr.is_empty() => {
                LocalMode::ClusterCidr(Vec::new())
            }
            DetectLocalMode::ClusterCidr => {
                LocalMode::ClusterCidr(pair("cluster-cidr", &rules.cluster_cidr)?)
            }
            DetectLocalMode::NodeCidr => LocalMode::NodeCidr,
            DetectLocalMode::BridgeInterface => LocalMode::BridgeInterface(required(
                "pod-bridge-interface",
                &rules.pod_bridge_interface,
            )?),
            DetectLocalMode::InterfaceNamePrefix => LocalMode::InterfaceNamePrefix(required(
                "pod-interface-name-prefix",
                &rules.pod_interface_name_prefix,
            )?),
        },
    )
}

/// One network, or one of each family.
fn pair(flag: &'static str, text: &str) -> Result<Vec<IpNet>, UsageError> {
    let cidrs = text
        .split(',')
        .map(|part| cidr(flag, part))
        .collect::<Result<Vec<_>, _>>()?;
    match cidrs[..] {
        [_] => Ok(cidrs),
        [a, b] if IpFamily::of_cidr(a) != IpFamily::of_cidr(b) => Ok(cidrs),
        _ => Err(usage(
            flag,
            format!("`{text}` is neither one network nor one of each family"),
        )),
    }
}

fn cidr(flag: &'static str, text: &str) -> Result<IpNet, UsageError> {
    let hint = "write a network like `10.244.0.0/16`";
    parse_cidr(text).ok_or_else(|| usage(flag, format!("`{text}` is no network; {hint}")))
}

fn node_ports(values: &[String]) -> Result<NodePortSource, UsageError> {
    const FLAG: &str = "nodeport-addresses";
    let values: Vec<&str> = values
        .iter()
        .map(String::as_str)
        .filter(|v| !v.is_empty())
        .collect();
    match values[..] {
        [] => Ok(NodePortSource::All),
        ["primary"] => Ok(NodePortSource::Primary),
        _ if values.contains(&"primary") => {
            Err(usage(FLAG, "`primary` cannot be mixed with networks"))
        }
        _ => {
            let cidrs = values.into_iter().map(|value| cidr(FLAG, value));
            Ok(NodePortSource::Within(cidrs.collect::<Result<_, _>>()?))
        }
    }
}

fn bind_address(text: &str) -> Result<Option<IpAddr>, UsageError> {
    let problem = || usage("bind-address", format!("`{text}` is no address"));
    let ip = parse_ip(text).ok_or_else(problem)?;
    Ok(Some(ip).filter(|ip| !ip.is_unspecified()))
}

/// An address with or without a port.
fn address(flag: &'static str, text: &str, port: u16) -> Result<SocketAddr, UsageError> {
    let bare = || parse_ip(text).map(|ip| SocketAddr::new(ip, port));
    let address = text.parse().ok().or_else(bare);
    let hint = format!("write an address like `127.0.0.1:{port}` or `[::1]:{port}`");
    address
        .filter(|address: &SocketAddr| address.port() != 0)
        .ok_or_else(|| usage(flag, format!("`{text}` is no address; {hint}")))
}

fn usage(flag: &'static str, problem: impl Into<String>) -> UsageError {
    UsageError {
        flag,
        problem: problem.into(),
    }
}
