//! Environment variables and the host name, which only this module reads.

/// Returns the host name; empty if there is none.
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Reports whether `NO_COLOR` is set and not empty.
pub(crate) fn no_color() -> bool {
    variable("NO_COLOR").is_some()
}

/// Returns the log filter in `RUST_LOG`.
pub(crate) fn log_filter() -> Option<String> {
    variable("RUST_LOG")
}

/// Returns the program that shows differences, with its parameters: `KUBECTL_EXTERNAL_DIFF`.
pub(crate) fn external_diff() -> Option<String> {
    variable("KUBECTL_EXTERNAL_DIFF")
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where the environment is read"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
