//! Notes for the operator on settings that are ignored, deprecated or without effect.

use std::path::Path;

use super::flags::{RulesArgs, RunArgs};
use super::kube_proxy::ConfigFile;
use super::kube_proxy::{self, KubeProxyConfiguration, differing, quoted};
use super::settings::{self, Setting, VersionArg};

/// Returns notes on ignored settings of commands that render and do not run: flags that a file
/// replaces, and fields of the file that are unknown or repeated.
pub(crate) fn ignored_settings(file: &ConfigFile, rules: &RulesArgs) -> Vec<String> {
    // `rendering` reports a file that cannot be decoded.
    let Ok((configuration, unknown)) = kube_proxy::read(&file.text) else {
        return Vec::new();
    };
    let mut configuration = configuration.with_defaults();
    configuration.choose_modes();
    let decoding = unknown.map(|what| lenient_decoding(&file.path, &what));
    let ignored = ignored_flags(&configuration, |to| rules.apply(to));
    decoding.into_iter().chain(ignored).collect()
}

/// Returns a note on the flags that a file replaces. Flags with the same value as the file are not
/// in it.
pub(super) fn ignored_flags(
    file: &KubeProxyConfiguration,
    apply: impl FnOnce(&mut KubeProxyConfiguration),
) -> Option<String> {
    let mut with_flags = file.clone();
    apply(&mut with_flags);
    with_flags.choose_modes();
    let overrides = |path: &&String| settings::of_path(path).is_some_and(Setting::overrides_file);
    let flags: Vec<String> = differing(file, &with_flags)
        .iter()
        .filter(|path| !overrides(path))
        .map(|path| flag_or_path(path))
        .collect();
    let list = quoted(&flags);
    (!flags.is_empty()).then(|| format!("flags ignored because --config is set: {list}"))
}

/// Returns the note on decoding that skipped parts of a file.
pub(super) fn lenient_decoding(file: &Path, ignored: &str) -> String {
    format!("lenient decoding of `{}`: {ignored}", file.display())
}

/// Returns a note on each deprecated flag that is set, as kube-proxy does.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags`, "`MarkDeprecated`" (v1.36)
pub(super) fn deprecated(args: &RunArgs) -> impl Iterator<Item = String> {
    let ports = ["healthz", "metrics"];
    let given = ports
        .into_iter()
        .filter(|name| args.flags.is_given(&format!("{name}-port")));
    given.map(|name| {
        format!(
            "--{name}-port is deprecated: it only completes an address without a port, and 0 \
             disables the server; use --{name}-bind-address=IP:PORT, or `off`"
        )
    })
}

/// Returns a note on the settings that differ from their default and have no effect.
pub(super) fn without_effect(
    args: &RunArgs,
    configuration: &KubeProxyConfiguration,
    has_file: bool,
) -> Option<String> {
    let mut defaults = KubeProxyConfiguration::defaults();
    defaults.choose_modes();
    let set = differing(configuration, &defaults);
    let unused = settings::without_effect();
    let has_none = |path: &&String| unused.iter().any(|setting| setting.path == **path);
    let name = |path: &String| {
        if has_file {
            path.clone()
        } else {
            flag_or_path(path)
        }
    };
    let mut names: Vec<String> = set.iter().filter(has_none).map(name).collect();
    let version = (args.version == Some(VersionArg::Other)).then_some("version");
    let flags = args.flags.different(unused).chain(version);
    names.extend(flags.map(|flag| format!("--{flag}")));
    let list = quoted(&names);
    (!names.is_empty()).then(|| format!("set, but without effect in this version: {list}"))
}

fn flag_or_path(path: &str) -> String {
    match settings::of_path(path).map_or("", |setting| setting.flag) {
        "" => path.to_owned(),
        flag => format!("--{flag}"),
    }
}
