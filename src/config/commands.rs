//! Command line of the program: its commands, their help texts, and compatibility with the command
//! line of kube-proxy.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, FromArgMatches, Parser, Subcommand};

use super::flags::{CleanupArgs, DiffArgs, ExplainArgs, RenderArgs, RunArgs, ServicesArgs};
use super::problems::in_standard_form;

/// A drop-in replacement for kube-proxy's iptables mode that restores only changes
#[derive(Debug, Parser)]
#[command(
    name = "deltaproxy",
    version = VERSION,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_help = "With flags but no command, and under the name kube-proxy, run is implied.")]
pub struct Cli {
    /// Command to execute.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses a command line, which begins with the program's name, by the definition of a
    /// program.
    ///
    /// # Errors
    ///
    /// Invalid flags. Requests for help or the version are errors as well.
    pub fn from_args(mut program: clap::Command, args: &[OsString]) -> Result<Self, clap::Error> {
        let matches = program
            .try_get_matches_from_mut(args)
            .map_err(in_standard_form)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
    }
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep the Service rules of this node up to date: the daemon
    #[command(
        after_help = RUN_MORE,
        after_long_help = RUN_HELP,
        args_override_self = true,
        disable_version_flag = true
    )]
    Run(Box<RunArgs>),
    /// Print rules as input for iptables-restore --noflush
    #[command(
        after_help = "More flags, and examples: deltaproxy render --help",
        after_long_help = RENDER_HELP,
        args_override_self = true,
        mut_arg("names", excerpt)
    )]
    Render(Box<RenderArgs>),
    /// Compare the live Service rules with the desired ones
    #[command(
        after_help = "More flags, examples, exit codes and JSON fields: deltaproxy diff --help",
        after_long_help = DIFF_HELP,
        args_override_self = true
    )]
    Diff(Box<DiffArgs>),
    /// List Service ports programmed on this node and their endpoints
    #[command(
        after_help = "More flags, examples, exit codes and JSON fields: deltaproxy services --help",
        after_long_help = SERVICES_HELP,
        args_override_self = true
    )]
    Services(Box<ServicesArgs>),
    /// Trace packets to an address or Service and explain the outcome
    #[command(
        after_help = "More flags, examples, exit codes and JSON fields: deltaproxy explain --help",
        after_long_help = EXPLAIN_HELP,
        args_override_self = true
    )]
    Explain(Box<ExplainArgs>),
    /// Remove the Service rules of every proxy from this node
    #[command(
        after_help = "Examples, exit codes and removed chains: deltaproxy cleanup --help",
        after_long_help = CLEANUP_HELP,
        args_override_self = true
    )]
    Cleanup(CleanupArgs),
    /// Print a shell completion script
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the program or of a command
    #[command(after_help = MAN_HELP)]
    Man {
        /// Command to print the page of
        #[arg(value_parser = ["run", "render", "diff", "services", "explain", "cleanup", "completions", "man"])]
        command: Option<String>,
    },
}

/// Adds to the help of `render` that a selection of Services is no restore input.
fn excerpt(names: Arg) -> Arg {
    let help = names
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    names.help(format!(
        "{help}; prints an excerpt that iptables-restore rejects"
    ))
}

/// Returns the command line that clap expects: `run` is inserted where it is implied, and `_` in
/// the names of flags becomes `-`. kube-proxy has no commands and accepts both spellings of flags.
pub fn normalize(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| "deltaproxy".into());
    let mut rest: Vec<OsString> = args.map(with_dashes).collect();
    let is_called_kube_proxy = Path::new(&program)
        .file_name()
        .is_some_and(|name| name == "kube-proxy");
    let first = rest
        .first()
        .and_then(|arg| arg.to_str())
        .unwrap_or_default();
    let is_flag = first.starts_with('-');
    let is_about_program = matches!(first, "-h" | "--help" | "-V" | "--version");
    if (is_called_kube_proxy && rest.is_empty()) || (is_flag && !is_about_program) {
        rest.insert(0, "run".into());
    }
    rest.insert(0, program);
    rest
}

fn with_dashes(arg: OsString) -> OsString {
    let Some(flag) = arg.to_str().and_then(|text| text.strip_prefix("--")) else {
        return arg;
    };
    let (name, value) = flag
        .split_once('=')
        .map_or((flag, None), |(n, v)| (n, Some(v)));
    let name = name.replace('_', "-");
    match value {
        Some(value) => format!("--{name}={value}").into(),
        None => format!("--{name}").into(),
    }
}

/// Version of this program and of the kube-proxy that it replaces.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), ", in place of kube-proxy v1.36");

// Lines of the texts below have at most 80 columns, so that help does not wrap them.

const RUN_MORE: &str = "\
More flags, and examples: deltaproxy run --help; manual: deltaproxy man run
18 kube-proxy flags are accepted without effect: see the manual";

const RUN_HELP: &str = "\
Examples:
  In a cluster, with the flags of kube-proxy:
    deltaproxy run --kubeconfig /var/lib/kube-proxy/kubeconfig.conf \\
      --cluster-cidr 10.244.0.0/16
  In a cluster, with the configuration file of kubeadm:
    deltaproxy run --config /var/lib/kube-proxy/config.conf \\
      --hostname-override $NODE_NAME
  Without a cluster, with a folder of manifests that is watched:
    deltaproxy run --manifests ./services
  Print restore input instead of applying it:
    deltaproxy run --manifests ./services --dry-run";

const RENDER_HELP: &str = "\
Examples:
  deltaproxy render --manifests ./services --cluster-cidr 10.244.0.0/16
  kubectl get services,endpointslices -A -o yaml |
    deltaproxy render --manifests - --family ipv6
  Rules of one Service with their objects; not for iptables-restore:
    deltaproxy render shop/web --manifests ./services --annotate
  Test whether the kernel accepts the rules:
    deltaproxy render --manifests ./services | iptables-restore --noflush --test
  Partial restore after a change of manifests:
    deltaproxy render --since ./services.old --manifests ./services";

const DIFF_HELP: &str = "\
Exit codes, as in kubectl diff:
  0  no difference that affects packets; comments may differ, which only
     --strict reports
  1  differences
  2  the comparison failed
 64  invalid flags

Examples:
  On a node, with the flags of its kube-proxy or deltaproxy:
    deltaproxy diff --kubeconfig /var/lib/kube-proxy/kubeconfig.conf \\
      --cluster-cidr 10.244.0.0/16
  With its configuration file, which names the kubeconfig; in the Pod if the
  file is from kubeadm:
    deltaproxy diff --config /var/lib/kube-proxy/config.conf
  A dump of a node against a cluster, from any host:
    deltaproxy diff --from-save iptables.txt --from-save ip6tables.txt \\
      --kubeconfig ~/.kube/config --hostname-override node-a \\
      --cluster-cidr 10.244.0.0/16
  A change of manifests before it is merged, with the restore of a node:
    deltaproxy diff --from-manifests main/ --manifests branch/
  Some Services only; the last line has the number of others that differ:
    deltaproxy diff shop/web --from-manifests main/ --manifests branch/
  Machine-readable:
    deltaproxy diff --from-save iptables.txt --manifests services/ --output json
  Service ports that lose an endpoint:
    deltaproxy diff --output json | jq -r '.servicePorts[] |
      select(any(.effects[]; .kind == \"endpoints\" and .removed != [])) |
      .service'

JSON, with sorted lists:
  families       the families that were compared
  summary        {changed, added, removed, cosmetic, setUp, stale, chains,
                 foreignRules, leftOut: {servicePorts, chains}}
  servicePorts   [{namespace, service, port, protocol, family, verdict,
                 effects: [{kind, ...}], chains: [chain]}]
  setUp, staleChains   [chain]
  restores       [{family, scope, reason, services, chains, lines, bytes,
                 payload}]

A verdict is appears, disappears, changes or cosmetic. A chain is {table, chain,
side, cosmetic, reordered, removed: [rule], added: [rule]}, with a family if it
belongs to no service port; its side is left (live), right (desired) or both.

A restore is full or partial; a partial one has a payload and the number of
changed Services. Against live rules it is the restore of a daemon that adopts
none of them; a starting daemon adopts the correct ones and writes less.

Fields of effects, by kind:
  entranceAdded, entranceRemoved   entrance: {kind, ip, port, fate, chain}
  fate                             entrance, before, after: Served, Dropped or
                                   Rejected
  internalTrafficPolicy, externalTrafficPolicy, affinitySeconds
                                   before, after
  endpoints                        policy, entrances, before, after, added,
                                   removed
  clusterShare, localShare         address, before, after
  sourceRanges                     added, removed
  masquerade                       before, after: {kind, network, interface};
                                   kind is all or outside; null means none;
                                   without both, see the chains
  refusals, order, rules           no fields: see the chains

The terms are those of deltaproxy services -o json. Fields may be added; nothing
else changes.";

const SERVICES_HELP: &str = "\
Examples:
  On a node, with any proxy:
    deltaproxy services
    deltaproxy services -n shop --watch
    deltaproxy services --address 10.96.0.10:53 -o wide
  From a dump, without root:
    deltaproxy services --from-save iptables.txt --from-save ip6tables.txt
  Rendered from manifests:
    deltaproxy services --manifests ./services
  Service ports without endpoints:
    deltaproxy services -o json |
      jq -r '.servicePorts[] | select(.endpoints == []) | .service'

A row covers both families: 3+3 are the endpoints of IPv4 and of IPv6.
ENDPOINTS counts each endpoint once that receives traffic under any policy;
LOCAL counts those on this node, if a policy is Local. If all policies are
Local, the rules contain only local endpoints. The rules do not contain the
terminating state of endpoints, nor headless Services. (unreachable) marks a
frontend without a path from PREROUTING, whose missing jump is on stderr, or
without a path to an endpoint.

JSON and YAML have one sorted entry for each service port and family:
  servicePorts   namespace, service, port, protocol, family, type, entrances
                 (kind, ip, port, fate, chain), internalTrafficPolicy,
                 externalTrafficPolicy, affinitySeconds, sourceRanges,
                 endpoints (address, chain, clusterShare, localShare), chains,
                 rules
  staleChains    family, chain
  missingJumps   family, from, to
  frontendConflicts   family, namespace, service, port, protocol, entrance,
                 owner

A fate is Served, Dropped, Rejected or Unreachable. A frontend conflict is a
frontend that a service port requests and another Service, its owner, has rules
for. Conflicts are known for manifests and clusters, and the first ten for a
node where this program serves port 10256. Tables have them on stderr. Fields
may be added; nothing else changes. With --watch, each line or document is one
servicePort and its event, ADDED, CHANGED or GONE; lines of a table begin with
the time.

Exit codes:
  0  listed, even if the list is empty
  1  failed, or no Service of a NAME or the NAMESPACE has rules or requests a
     frontend of another Service
 64  invalid flags";

const EXPLAIN_HELP: &str = "\
Examples:
  On a node, with any proxy:
    deltaproxy explain 10.96.0.10:53/udp
    deltaproxy explain prod/web:http --from outside
    deltaproxy explain :30080 --source 198.51.100.7
  From a dump, without root:
    deltaproxy explain kube-dns --from-save iptables.txt --node-ip 192.168.0.2
  Rendered from manifests, as an image:
    deltaproxy explain prod/web --manifests ./services --graph svg > web.svg

JSON:
  destinations   [{address, port, protocol, services: [{name, kind}],
                 endpointOf, affinitySeconds, sourceRanges,
                 conflicts: [{name, kind, owner}], near, nodeAddressKnown,
                 podAddressKnown, missingTables, tablesNotRead, ways}]
  ways           [{clients: [{kind, address, interface}], rulesOf, summary,
                 outcomes, hairpinMasqueraded, unsure: [rule]}]
  outcomes       [{share, result, to, sees, reason,
                 rules: [{table, chain, rule, comment}]}]

A result is served, local (this node), routed (as without rules), dropped,
rejected or unclear. If served, the endpoint sees the address of the client, of
the node or another one. missingTables are filter or nat if the dump lacks
them; tablesNotRead are raw and security if they have rules. If no address of a
Pod is known, there are no ways from a Pod. Shares are fractions of new
connections. Clients of one way have the same outcome; if they traverse
different rules, rulesOf is the kind of client whose rules are listed. If the
policy of a chain drops packets, the last rule is empty and has a policy.

Exit codes:
  0  explained, with any outcome
  1  failed, for example if there is no such name
 64  invalid flags";

const CLEANUP_HELP: &str = "\
Examples:
  On a node that changes to another proxy, or needs none:
    deltaproxy cleanup
  Rules that a proxy left in the other backend; the current one keeps its rules:
    deltaproxy cleanup --iptables-backend legacy
  Print the restore input only:
    deltaproxy cleanup --dry-run

Stop the proxy first: a running proxy detects the loss and restores its rules.

Removed are, for both families, all chains of kube-proxy and of this program,
of any release and with their canaries, and the jumps to them. Without
--iptables-backend, so are the tables of kube-proxy's mode nftables.

Kept are the chains of kubelet, whether it runs or not: KUBE-FIREWALL,
KUBE-MARK-DROP, KUBE-KUBELET-CANARY and KUBE-IPTABLES-HINT. A chain of a proxy
that a third-party rule jumps to is emptied and kept. Kernel settings are
unchanged. Remains of mode ipvs are reported and kept.

Exit codes:
  0  only what is listed above as kept is left
  1  something could not be removed; everything else was
 64  invalid flags";

const COMPLETIONS_HELP: &str = "\
Examples:
  source <(deltaproxy completions bash)
  deltaproxy completions fish > ~/.config/fish/completions/deltaproxy.fish

In bash, services, explain and render complete names of Services, and of
namespaces after -n. The names are those in the rules of the kernel, for root,
or in the dump or manifests earlier on the command line. sto completes to
shop/storefront; after -n, names have no namespace.";

const MAN_HELP: &str = "\
Examples:
  deltaproxy man services | man -l -
  deltaproxy man > /usr/local/share/man/man1/deltaproxy.1";
