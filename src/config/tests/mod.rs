//! Tests of flags and file: what is typed or written, and what it amounts to.
//!
//! Apart as a folder because there are more fields than lines of code about each.

mod defaults;
mod fields;
mod file;
mod flags;
mod gates;
mod hostile;
mod normalizing;
mod precedence;
mod problems;
mod resolving;
mod writing;

use clap::Parser;
use serde_json::Value;

use super::*;

/// What a file needs before it says anything.
const HEADER: &str = "\
    apiVersion: kubeproxy.config.k8s.io/v1alpha1\n\
    kind: KubeProxyConfiguration\n";

/// What `run` was told; flags are separated by blanks.
fn typed(flags: &str) -> Result<Box<RunArgs>, String> {
    let typed = ["deltaproxy", "run"]
        .into_iter()
        .chain(flags.split_whitespace());
    let cli = Cli::try_parse_from(normalize(typed.map(Into::into))).map_err(|e| e.to_string())?;
    match cli.command {
        Command::Run(args) => Ok(args),
        _ => Err("not `run`".to_owned()),
    }
}

/// `run`'s configuration, or the error as it is shown.
fn configured(flags: &str) -> Result<Config, String> {
    run(&*typed(flags)?, None, "Node-1").map_err(|error| error.to_string())
}

/// The same with a file of this content, without its header.
fn with_file(flags: &str, fields: &str) -> Result<Config, String> {
    with_text(flags, &format!("{HEADER}{fields}"))
}

/// The same with the whole content.
fn with_text(flags: &str, text: &str) -> Result<Config, String> {
    let file = ConfigFile {
        path: "c.yaml".into(),
        text: text.to_owned(),
    };
    run(&*typed(flags)?, Some(&file), "Node-1").map_err(|error| error.to_string())
}

#[track_caller]
fn loaded(fields: &str) -> Config {
    with_file("", fields).unwrap_or_else(|error| panic!("{fields}: {error}"))
}

/// A field of the resolved configuration, by its path in the file.
fn field_of(config: &Config, path: &str) -> Value {
    let tree = config.configuration.to_json();
    let field = path
        .split('.')
        .try_fold(&tree, |tree, name| tree.get(name))
        .cloned();
    field.unwrap_or_default()
}
