//! Sections of the texts of a command, and the entries that several commands share.

use std::fmt::Write as _;

/// Entries of a section: names and their descriptions.
type HelpEntries = &'static [(&'static str, &'static str)];

/// Texts of the program or of one of its commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandHelp {
    /// Name of the command; empty for the program.
    pub name: &'static str,
    /// Paragraphs, separated by empty lines.
    pub description: &'static str,
    /// Captions, and the command lines that they announce, indented.
    pub examples: &'static str,
    /// Exit codes, each with its meaning, whose further lines are indented; without
    /// [`INVALID_FLAGS`].
    pub exit_status: &'static str,
    /// Files that are read or written without being named on the command line.
    pub files: HelpEntries,
    /// Environment variables.
    pub environment: HelpEntries,
    /// Manual pages of other programs, such as `iptables(8)`.
    pub see_also: &'static [&'static str],
}

impl CommandHelp {
    /// Renders the sections that follow the flags in help.
    pub(in crate::config) fn after_flags(&self) -> String {
        let indented = |lines: &str| format!("  {}\n", lines.replace('\n', "\n  "));
        let mut text = format!("Examples:\n{}", indented(self.examples));
        if !self.description.is_empty() {
            let _ = write!(text, "\n{}\n", self.description);
        }
        let status = indented(self.exit_status);
        let _ = write!(text, "\nExit codes:\n{status} {INVALID_FLAGS}");
        text
    }
}

/// Last exit code of every command.
pub(crate) const INVALID_FLAGS: &str = "64  invalid flags or configuration file; nothing was done";

pub(super) const XTABLES_LOCK: (&str, &str) = (
    "/run/xtables.lock",
    "lock that the iptables binaries hold while they change or read legacy rules",
);
pub(super) const SERVICE_ACCOUNT: (&str, &str) = (
    "/var/run/secrets/kubernetes.io/serviceaccount/",
    "token and certificate for the API server in a Pod",
);
pub(super) const NO_COLOR: (&str, &str) = (
    "NO_COLOR",
    "disables colors if set and not empty, unless --color is set",
);
pub(super) const RUST_LOG: (&str, &str) = (
    "RUST_LOG",
    "filter of the log on stderr, such as debug or deltaproxy::watch=trace",
);
pub(super) const LOCK_FILE: (&str, &str) = (
    "XTABLES_LOCKFILE",
    "path of the lock of the iptables binaries, instead of /run/xtables.lock",
);
pub(super) const API_SERVER: (&str, &str) = (
    "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT",
    "address of the API server in a Pod, if no flag selects a source",
);
pub(super) const PATH: (&str, &str) = (
    "PATH",
    "folders of the iptables binaries, such as iptables-restore",
);
