//! Notes for the operator on settings that are unknown, ignored, deprecated or without effect.

use std::path::Path;

use super::flags::RunArgs;
use super::kube_proxy::{IgnoredFields, KubeProxyConfiguration, differing, leaves, quoted};
use super::problems::{ConfigNote, listed, nearest, shortened};
use super::settings::{self, Setting};

/// Returns a warning of the flags that a file replaces. Flags with the same value as the file are
/// not in it.
pub(super) fn ignored_flags(
    file: &KubeProxyConfiguration,
    apply: impl FnOnce(&mut KubeProxyConfiguration),
) -> Option<ConfigNote> {
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
    (!flags.is_empty())
        .then(|| ConfigNote::Warning(format!("flags ignored because --config is set: {list}")))
}

/// Returns the warning of decoding that ignored parts of a file.
pub(super) fn lenient_decoding(file: &Path, ignored: &IgnoredFields) -> Option<ConfigNote> {
    let mut parts = Vec::new();
    if !ignored.unknown.is_empty() {
        let known = leaves();
        let names = listed(&ignored.unknown, |path| {
            let similar = nearest(path, known.iter().map(String::as_str));
            let hint = similar.map(|known| format!(" (did you mean `{known}`?)"));
            format!("`{}`{}", shortened(path), hint.unwrap_or_default())
        });
        parts.push(format!("unknown fields {names} ignored"));
    }
    parts.extend(ignored.repeated.clone());
    let file = file.display();
    (!parts.is_empty()).then(|| {
        let parts = parts.join("; ");
        ConfigNote::Warning(format!("lenient decoding of `{file}`: {parts}"))
    })
}

/// Returns the note on an empty proxy mode, which a later kube-proxy takes for another mode.
///
/// Upstream: cmd/kube-proxy/app/server_linux.go, `platformApplyDefaults` (v1.37)
/// KEP: kep.k8s.io/5343
pub(super) fn empty_mode(configuration: &KubeProxyConfiguration) -> Option<ConfigNote> {
    configuration.mode.is_empty().then(|| {
        let text = "proxy mode is not set: using iptables. From 1.40 on, an empty mode means \
                    nftables to kube-proxy; set `mode: iptables`, or --proxy-mode=iptables, \
                    before a roll back to it";
        ConfigNote::Note(text.to_owned())
    })
}

/// Returns a warning of each deprecated flag that is set, as kube-proxy does.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags`, "`MarkDeprecated`" (v1.37)
pub(super) fn deprecated(args: &RunArgs) -> impl Iterator<Item = ConfigNote> {
    let ports = ["healthz", "metrics"];
    let given = ports
        .into_iter()
        .filter(|name| args.flags.is_given(&format!("{name}-port")));
    given.map(|name| {
        ConfigNote::Warning(format!(
            "--{name}-port is deprecated: it only completes an address without a port, and 0 \
             disables the server; use --{name}-bind-address=IP:PORT, or `off`"
        ))
    })
}

/// Returns a note on the settings that differ from their default and have no effect.
pub(super) fn without_effect(
    args: &RunArgs,
    configuration: &KubeProxyConfiguration,
    has_file: bool,
) -> Option<ConfigNote> {
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
    let flags = args.flags.different(unused);
    names.extend(flags.map(|flag| format!("--{flag}")));
    let list = quoted(&names);
    (!names.is_empty())
        .then(|| ConfigNote::Note(format!("set, but without effect in this version: {list}")))
}

fn flag_or_path(path: &str) -> String {
    match settings::of_path(path).map_or("", |setting| setting.flag) {
        "" => path.to_owned(),
        flag => format!("--{flag}"),
    }
}
