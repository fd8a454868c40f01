//! All flags of `run`.
//!
//! Apart from the groups, which other commands may have, too.

use clap::{ArgAction, Args};

use super::{
    ActionArgs, FileArgs, IpvsArgs, LogArgs, NodeArgs, RulesArgs, ServeArgs, SourceArgs, SyncArgs,
    UnusedArgs, VersionArg,
};
use crate::config::kube_proxy::KubeProxyConfiguration;

/// Flags of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Print version
    #[arg(short = 'V', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set)]
    pub version: Option<VersionArg>,
    /// What takes the place of flags.
    #[command(flatten)]
    pub file: FileArgs,
    /// What to do in place of running.
    #[command(flatten)]
    pub action: ActionArgs,
    /// Where objects come from.
    #[command(flatten)]
    pub source: SourceArgs,
    /// What shapes the rules.
    #[command(flatten)]
    pub rules: RulesArgs,
    /// When to sync.
    #[command(flatten)]
    pub sync: SyncArgs,
    /// What this machine is set to.
    #[command(flatten)]
    pub node: NodeArgs,
    /// What is served.
    #[command(flatten)]
    pub serve: ServeArgs,
    /// What is logged. The first that have no effect are among these.
    #[command(flatten)]
    pub log: LogArgs,
    /// What another mode would want to know.
    #[command(flatten)]
    pub ipvs: IpvsArgs,
    /// What has no effect.
    #[command(flatten)]
    pub unused: UnusedArgs,
}

impl RunArgs {
    /// What the flags amount to, on top of the defaults.
    pub(in crate::config) fn configuration(&self) -> KubeProxyConfiguration {
        let mut configuration = KubeProxyConfiguration::defaults();
        self.apply(&mut configuration);
        configuration
    }

    /// Sets what flags were given for.
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        self.source.apply(to);
        self.rules.apply(to);
        self.sync.apply(to);
        self.serve.apply(to);
        self.log.apply(to);
        self.node.apply(to);
        self.ipvs.apply(to);
        self.unused.apply(to);
    }
}
