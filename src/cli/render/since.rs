//! The state of the cluster that a partial payload leads from.

use super::super::file::Shape;
use crate::config::{RenderArgs, RenderConfig, Source};

/// The same as `config`, with the objects of `--since`.
pub(super) fn since(
    args: &RenderArgs,
    shape: &Shape<'_>,
    config: &RenderConfig,
) -> anyhow::Result<RenderConfig> {
    let mut source = args.source.clone();
    source.kubeconfig = None;
    source.master = None;
    source.manifests.clone_from(&args.since);
    let before = shape.desired(&source)?;
    let is_stdin = |source: &Source| matches!(source, Source::Manifests { path, .. } if path.as_os_str() == "-");
    anyhow::ensure!(
        !(is_stdin(&before.source) && is_stdin(&config.source)),
        "--since and --manifests cannot both read stdin"
    );
    Ok(before)
}
