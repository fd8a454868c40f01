//! Words that flags take as values.

use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;

use crate::config::go;
use crate::host::BackendChoice;
use crate::render::PartialRestore;

/// Value of `--iptables-backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendArg {
    /// Backend with kubelet's KUBE-IPTABLES-HINT, otherwise path
    Auto,
    /// Binaries iptables and ip6tables in PATH, including wrappers
    Path,
    /// Binaries with the suffix -nft
    Nft,
    /// Binaries with the suffix -legacy
    Legacy,
}

impl From<BackendArg> for BackendChoice {
    fn from(choice: BackendArg) -> Self {
        match choice {
            BackendArg::Path => Self::Path,
            BackendArg::Auto => Self::Auto,
            BackendArg::Nft => Self::Nft,
            BackendArg::Legacy => Self::Legacy,
        }
    }
}

/// Value of `--partial-restore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartialRestoreArg {
    /// Only chains whose rules changed
    ChangedChains,
    /// All chains of changed Services and every shared chain, as in KEP-3453
    #[value(name = "kep-3453")]
    #[serde(rename = "kep-3453")]
    Kep3453,
}

impl From<PartialRestoreArg> for PartialRestore {
    fn from(shape: PartialRestoreArg) -> Self {
        match shape {
            PartialRestoreArg::ChangedChains => Self::ChangedChains,
            PartialRestoreArg::Kep3453 => Self::Kep3453,
        }
    }
}

/// Value of `--version`.
///
/// Upstream: `staging/src/k8s.io/component-base/version/verflag/verflag.go` (v1.36)
///
/// Differs from upstream: only the version of this program is ever reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionArg {
    /// Print the version and exit.
    Print,
    /// `false`: run as if the flag were absent.
    No,
    /// Report the version of another kube-proxy of the same minor version; without effect.
    Other,
}

impl FromStr for VersionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "raw" => Ok(Self::Print),
            version if version.starts_with("v1.36.") => Ok(Self::Other),
            version if version.starts_with('v') => Err(format!(
                "\"{version}\" is not a valid version: must be v1.36.x"
            )),
            other => go::bool(other).map(|is| if is { Self::Print } else { Self::No }),
        }
    }
}
