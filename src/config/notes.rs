//! What the operator should know about flags and file although nothing is wrong.
//!
//! Apart because kube-proxy says nothing here, and its users wonder why nothing happens.

use std::path::Path;

use super::fields::{Effect, field};
use super::flags::{RunArgs, VersionArg};
use super::kube_proxy::{KubeProxyConfiguration, differing, quoted};

/// What a file says that is no field of it, or twice.
pub(super) fn lenient(file: &Path, overlooked: &str) -> String {
    format!("`{}` was read leniently: {overlooked}", file.display())
}

/// The flags that a file takes the place of: those that would change what it says. A flag that says
/// the same is not in vain.
pub(super) fn ignored(
    file: &KubeProxyConfiguration,
    with_flags: &KubeProxyConfiguration,
) -> Option<String> {
    let counts = |path: &str| path == "hostnameOverride" || path.starts_with("logging.");
    let flags: Vec<String> = differing(file, with_flags)
        .iter()
        .filter(|path| !counts(path))
        .map(|path| flag_or_path(path))
        .collect();
    let list = quoted(&flags);
    (!flags.is_empty()).then(|| format!("--config takes the place of these flags: {list}"))
}

/// Flags that are there for old command lines; kube-proxy warns of them, too.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags`, "`MarkDeprecated`" (v1.36)
pub(super) fn deprecated(args: &RunArgs) -> impl Iterator<Item = String> {
    let ports = [
        ("healthz", args.serve.healthz_port),
        ("metrics", args.serve.metrics_port),
    ];
    let given = ports.into_iter().filter(|(_, port)| port.is_some());
    given.map(|(name, _)| {
        format!(
            "--{name}-port is deprecated, and only counts with an address without a port, or if it \
             is 0; use --{name}-bind-address=IP:PORT, or `off`"
        )
    })
}

/// What is set to something other than its default and has no effect.
pub(super) fn unused(
    args: &RunArgs,
    configuration: &KubeProxyConfiguration,
    has_file: bool,
) -> Option<String> {
    let mut defaults = KubeProxyConfiguration::defaults();
    defaults.choose_modes();
    let set = differing(configuration, &defaults);
    let has_none = |path: &&String| field(path).is_some_and(|field| field.effect == Effect::None);
    let name = |path: &String| {
        if has_file {
            path.clone()
        } else {
            flag_or_path(path)
        }
    };
    let mut names: Vec<String> = set.iter().filter(has_none).map(name).collect();
    let version = (args.version == Some(VersionArg::Other)).then_some("version");
    let flags = args.unused.without_field().chain(version);
    names.extend(flags.map(|flag| format!("--{flag}")));
    let list = quoted(&names);
    (!names.is_empty()).then(|| format!("set, but without effect in this version: {list}"))
}

fn flag_or_path(path: &str) -> String {
    match field(path).map_or("", |field| field.flag) {
        "" => path.to_owned(),
        flag => format!("--{flag}"),
    }
}
