//! Tests of flags and file: their resolved configuration and their errors.

mod defaults;
mod durations;
mod file;
mod flags;
mod gates;
mod help;
mod hostile;
mod normalizing;
mod precedence;
mod problems;
mod resolving;
mod settings;
mod writing;

use clap::{CommandFactory, Parser};
use serde_json::Value;

use super::*;

/// Header that every file needs.
const HEADER: &str = "\
    apiVersion: kubeproxy.config.k8s.io/v1alpha1\n\
    kind: KubeProxyConfiguration\n";

/// Parses flags of `run`, which are separated by blanks.
fn typed(flags: &str) -> Result<Box<RunArgs>, String> {
    let typed = ["deltaproxy", "run"]
        .into_iter()
        .chain(flags.split_whitespace());
    let args = normalize(typed.map(Into::into));
    let cli = Cli::from_args(Cli::command(), &args).map_err(|error| error.to_string())?;
    match cli.command {
        Command::Run(args) => Ok(args),
        _ => Err("not `run`".to_owned()),
    }
}

/// Resolves the configuration of `run`, or returns the error text.
fn configured(flags: &str) -> Result<Config, String> {
    run(&*typed(flags)?, None, "Node-1").map_err(|error| error.to_string())
}

/// Resolves flags with a file of these fields, to which the header is added.
fn with_file(flags: &str, fields: &str) -> Result<Config, String> {
    with_text(flags, &format!("{HEADER}{fields}"))
}

/// Resolves flags with a file of this content.
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

/// Returns the texts of notes.
fn noted(config: &Config) -> Vec<String> {
    let notes = config.notes.iter();
    notes.map(|note| note.text().to_owned()).collect()
}

/// Returns a field of the resolved configuration by its path in the file.
fn field_of(config: &Config, path: &str) -> Value {
    let tree = config.configuration.to_json();
    let field = path
        .split('.')
        .try_fold(&tree, |tree, name| tree.get(name))
        .cloned();
    field.unwrap_or_default()
}

/// Fields that are written only if they are set.
const WHEN_SET: &[&str] = &[
    "featureGates",
    "logging.vmodule",
    "logging.options.text.splitStream",
    "logging.options.json.splitStream",
    "windowsRunAsService",
    "deltaproxy.serviceDispatch",
];

/// Returns the paths of all fields that are not sections.
fn leaves() -> Vec<String> {
    let mut all = Vec::new();
    let configuration = kube_proxy::KubeProxyConfiguration::default();
    add_leaves(&serde_json::to_value(configuration).unwrap(), "", &mut all);
    all.extend(WHEN_SET.iter().map(|&path| path.to_owned()));
    all
}

fn add_leaves(tree: &Value, at: &str, all: &mut Vec<String>) {
    let Some(fields) = tree.as_object() else {
        return all.push(at.to_owned());
    };
    for (name, value) in fields {
        let path = format!("{at}.{name}");
        add_leaves(value, path.trim_start_matches('.'), all);
    }
}
