//! Environment variables, the host name and the name of the program, which only this module reads.

use std::ffi::OsStr;
use std::path::Path;
#[cfg(feature = "tools")]
use std::path::PathBuf;

use crate::watch::api::ProxyEnvironment;

/// Returns the host name; empty if there is none.
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Name by which the program was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramName {
    /// `kube-proxy`: the daemon is started without a command.
    KubeProxy,
    /// `kubectl-deltaproxy`: a plugin of kubectl, which changes nothing.
    KubectlPlugin,
    /// `kubectl_complete-deltaproxy`: completions of that plugin.
    #[cfg(feature = "tools")]
    KubectlCompletion,
    /// Any other: usually `deltaproxy`.
    Own,
}

impl ProgramName {
    /// Returns the name in the first word of a command line.
    pub(crate) fn of(program: &OsStr) -> Self {
        match Path::new(program).file_name().and_then(OsStr::to_str) {
            Some("kube-proxy") => Self::KubeProxy,
            Some("kubectl-deltaproxy") => Self::KubectlPlugin,
            #[cfg(feature = "tools")]
            Some("kubectl_complete-deltaproxy") => Self::KubectlCompletion,
            _ => Self::Own,
        }
    }
}

/// Returns the name by which the program was started.
pub(crate) fn program_name() -> ProgramName {
    let program = std::env::args_os().next().unwrap_or_default();
    ProgramName::of(&program)
}

/// Reports whether `NO_COLOR` is set and not empty.
pub(crate) fn no_color() -> bool {
    variable("NO_COLOR").is_some()
}

/// Returns the log filter in `RUST_LOG`.
pub(crate) fn log_filter() -> Option<String> {
    variable("RUST_LOG")
}

/// Returns the proxies of the environment. A name in upper case takes precedence, as in Go.
pub(crate) fn proxies() -> ProxyEnvironment {
    let either = |upper, lower| variable(upper).or_else(|| variable(lower));
    ProxyEnvironment {
        https: either("HTTPS_PROXY", "https_proxy").unwrap_or_default(),
        http: either("HTTP_PROXY", "http_proxy").unwrap_or_default(),
        no_proxy: either("NO_PROXY", "no_proxy").unwrap_or_default(),
    }
}

/// Returns the kubeconfigs that kubectl merges without a flag: those of `KUBECONFIG` that exist, or
/// `~/.kube/config`.
///
/// Upstream: k8s.io/client-go/tools/clientcmd/loader.go, `ClientConfigLoadingRules` (v1.37)
#[cfg(feature = "tools")]
pub(crate) fn kubeconfigs() -> Vec<PathBuf> {
    let of_home = || Some(Path::new(&variable("HOME")?).join(".kube/config"));
    let paths: Vec<PathBuf> = match variable("KUBECONFIG") {
        Some(list) => std::env::split_paths(&list).collect(),
        None => of_home().into_iter().collect(),
    };
    let is_there = |path: &PathBuf| !path.as_os_str().is_empty() && path.exists();
    paths.into_iter().filter(is_there).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where the environment is read"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
