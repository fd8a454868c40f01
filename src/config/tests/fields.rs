//! Table of fields against the fields of a configuration and the flags of `run`.

use super::*;
use crate::config::fields::{FIELDS, FieldEffect};
use crate::config::kube_proxy::leaves;

/// Flags of kube-proxy without a field.
const WITHOUT_FIELD: &[&str] = &[
    "boot-id-file",
    "cleanup",
    "config",
    "healthz-port",
    "init-only",
    "machine-id-file",
    "master",
    "metrics-port",
    "write-config-to",
];

/// Flags that kube-proxy does not have.
const OUR_OWN: &[&str] = &[
    "dry-run",
    "iptables-backend",
    "manifests",
    "manifests-service-cidr",
    "partial-restore",
    "state-dir",
    "sync-cpu-budget",
    "verify-interval",
];

#[test]
fn every_field_is_in_the_table_once() {
    let mut there = leaves();
    let mut listed: Vec<&str> = FIELDS.iter().map(|field| field.path).collect();
    there.sort_unstable();
    listed.sort_unstable();
    assert_eq!(there, listed);
}

#[test]
fn every_flag_is_in_the_table_once() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let mut flags: Vec<&str> = run
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .collect();
    flags.retain(|flag| !["help", "version"].contains(flag));
    let mut listed: Vec<&str> = FIELDS.iter().map(|field| field.flag).collect();
    listed.retain(|flag| !flag.is_empty());
    listed.extend(WITHOUT_FIELD);
    listed.extend(OUR_OWN);
    flags.sort_unstable();
    listed.sort_unstable();
    assert_eq!(flags, listed);
}

#[test]
fn every_flag_is_shown_by_flagz() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let shown = configured("").unwrap().flags;
    for flag in run.get_arguments().filter_map(|arg| arg.get_long()) {
        assert!(shown.contains_key(flag), "--{flag}");
    }
}

/// Every flag of kube-proxy can be found in `--help`, with those without effect at its end.
#[test]
fn help_lists_every_flag_and_ends_with_those_without_effect() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let hidden = run.get_arguments().find(|arg| arg.is_hide_set());
    assert!(hidden.is_none(), "{hidden:?} is not listed");
    let headings = run.get_arguments().filter_map(|arg| arg.get_help_heading());
    let mut order: Vec<&str> = Vec::new();
    for heading in headings {
        if !order.contains(&heading) {
            order.push(heading);
        }
    }
    assert_eq!(order.last(), Some(&"Accepted without effect"), "{order:?}");
}

#[test]
fn flags_without_effect_are_under_their_own_heading() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    for field in FIELDS.iter().filter(|field| !field.flag.is_empty()) {
        let arg = run
            .get_arguments()
            .find(|arg| arg.get_long() == Some(field.flag))
            .unwrap();
        let heading = arg.get_help_heading().unwrap_or_default();
        let is_unused = heading.to_lowercase().contains("without effect");
        assert_eq!(
            is_unused,
            field.effect == FieldEffect::None,
            "--{}",
            field.flag
        );
    }
}
