//! kube-proxy's file, for commands that render and do not run.
//!
//! Apart from the flags of `run` because nothing here ends when the file changes.

use std::path::PathBuf;

use clap::Args;

/// What takes the place of flags.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rules")]
pub struct RulesFileArgs {
    /// A KubeProxyConfiguration in place of these flags; its kubeconfig and its node's name are
    /// used, too, unless there are flags
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}
