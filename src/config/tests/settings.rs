//! The list of settings against the fields of a configuration and the flags of `run`.

use super::*;
use crate::config::settings;

#[test]
fn every_field_is_in_the_list_once() {
    let mut there = leaves();
    let listed = settings::all().map(|setting| setting.path);
    let mut listed: Vec<&str> = listed.filter(|path| !path.is_empty()).collect();
    there.sort_unstable();
    listed.sort_unstable();
    assert_eq!(there, listed);
}

#[test]
fn every_flag_is_in_the_list_once() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let flags = run.get_arguments().filter_map(|arg| arg.get_long());
    let mut flags: Vec<&str> = flags.filter(|flag| *flag != "help").collect();
    let listed = settings::all().map(|setting| setting.flag);
    let mut listed: Vec<&str> = listed.filter(|flag| !flag.is_empty()).collect();
    flags.sort_unstable();
    listed.sort_unstable();
    assert_eq!(flags, listed);
}

/// Every default is a value of its flag, and typing it changes nothing.
#[test]
fn a_default_can_be_typed_and_changes_nothing() {
    let usual = configured("").unwrap();
    for setting in settings::all().filter(|setting| !setting.flag.is_empty()) {
        let default = setting.default_text();
        if default.is_empty() {
            continue;
        }
        let flag = format!("--{}={default}", setting.flag);
        let config = configured(&flag).unwrap_or_else(|error| panic!("{flag}: {error}"));
        assert_eq!(config.configuration, usual.configuration, "{flag}");
        assert_eq!(config.flags, usual.flags, "{flag}");
        assert_eq!(noted(&config), [""; 0], "{flag}");
    }
}

#[test]
fn every_flag_is_shown_by_flagz() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let shown = configured("").unwrap().flags;
    for arg in run.get_arguments() {
        let Some(flag) = arg.get_long() else { continue };
        assert_eq!(shown.contains_key(flag), !arg.is_hide_set(), "--{flag}");
    }
}

/// Every flag of kube-proxy can be found in `--help`, with those without effect at its end.
#[test]
fn help_lists_every_flag_and_ends_with_those_without_effect() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let hidden = run.get_arguments().filter(|arg| arg.is_hide_set());
    let hidden: Vec<_> = hidden.filter_map(|arg| arg.get_long()).collect();
    assert_eq!(hidden, [""; 0]);
    let headings = run.get_arguments().filter_map(|arg| arg.get_help_heading());
    let mut order: Vec<&str> = Vec::new();
    for heading in headings {
        if !order.contains(&heading) {
            order.push(heading);
        }
    }
    assert_eq!(order.last(), Some(&"Accepted without effect"), "{order:?}");
}
