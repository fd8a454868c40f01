//! The environment: variables and the host's name.
//!
//! Apart because it is read here and nowhere else, so that nothing depends on it unseen.

/// The host's name, empty if it has none.
pub fn host_name() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// `NO_COLOR` is set to anything but nothing.
pub fn no_color() -> bool {
    variable("NO_COLOR").is_some()
}

/// `RUST_LOG`.
pub fn log_filter() -> Option<String> {
    variable("RUST_LOG")
}

/// `KUBECTL_EXTERNAL_DIFF`: the program that shows differences, and its parameters.
pub fn external_diff() -> Option<String> {
    variable("KUBECTL_EXTERNAL_DIFF")
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where the environment is read"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
