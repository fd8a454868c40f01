//! What `run` does in place of running.
//!
//! Apart because these count beside --config, and no field stands for them.

use std::str::FromStr;

use clap::{ArgAction, Args};

use crate::config::go;

/// What to do in place of running.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "In place of running")]
pub struct ActionArgs {
    /// Only do what takes privileges, and end: kernel settings, and the loading of modules
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub init_only: Option<bool>,
    /// Remove the rules of every proxy for Services, and end; see `deltaproxy cleanup`
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub cleanup: Option<bool>,
}

/// `--version`.
///
/// Upstream: `staging/src/k8s.io/component-base/version/verflag/verflag.go` (v1.36)
///
/// Differs from upstream: no version but our own is ever reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionArg {
    /// Print it, and end.
    Print,
    /// `false`: as if it were not there.
    No,
    /// Report that of another kube-proxy of the same minor version.
    Other,
}

impl FromStr for VersionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "raw" => Ok(Self::Print),
            version if version.starts_with("v1.36.") => Ok(Self::Other),
            version if version.starts_with('v') => {
                Err(format!("`{version}` is no version 1.36 of kube-proxy"))
            }
            other => go::bool(other).map(|is| if is { Self::Print } else { Self::No }),
        }
    }
}

/// What `run` is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Keep the rules up to date.
    Run,
    /// What takes privileges, and nothing else.
    Init,
    /// Remove all rules.
    Cleanup,
}

impl ActionArgs {
    /// The one thing that is asked for.
    ///
    /// Upstream: `cmd/kube-proxy/app/options.go`, `Run` (v1.36)
    ///
    /// Differs from upstream: there, of both `--cleanup` and `--init-only` the former counts. One
    /// removes what the other is for, and whoever asks for both means something else.
    ///
    /// # Errors
    ///
    /// Two things are asked for; which flag to leave out for which.
    pub(in crate::config) fn action(&self) -> Result<Action, String> {
        match (self.cleanup, self.init_only) {
            (Some(true), Some(true)) => {
                let problem = "cannot be done with --cleanup; leave out --init-only to remove all \
                               rules, or --cleanup to prepare for a proxy";
                Err(problem.to_owned())
            }
            (Some(true), _) => Ok(Action::Cleanup),
            (_, Some(true)) => Ok(Action::Init),
            _ => Ok(Action::Run),
        }
    }
}
