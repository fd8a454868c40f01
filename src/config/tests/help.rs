//! Layout of help at the widths of common terminals.

use super::*;

/// Lines of a terminal that `-h` may fill, at 100 columns.
const SCREEN: usize = 50;

/// Short and long help of the program and of every command at a width; 0 for no wrapping.
fn helps(width: usize) -> Vec<[String; 2]> {
    let mut program = Cli::command();
    program.build();
    let commands = program.get_subcommands().chain([&program]);
    commands
        .map(|command| {
            let mut command = command.clone().term_width(width);
            [command.render_help(), command.render_long_help()].map(|help| help.to_string())
        })
        .collect()
}

#[test]
fn every_command_has_texts_of_its_own() {
    for command in Cli::command().get_subcommands() {
        assert_eq!(help_of(command.get_name()).name, command.get_name());
    }
}

#[test]
fn short_help_fits_on_a_screen() {
    for [short, _] in helps(100) {
        assert!(short.lines().count() <= SCREEN, "{short}");
    }
}

#[test]
fn wrapped_help_has_no_short_lines() {
    let unwrapped = helps(0).concat().join("\n");
    let whole: Vec<&str> = unwrapped.lines().map(str::trim).collect();
    let mut lines = [80, 100].map(helps).concat().concat();
    lines.retain(|help| !help.is_empty());
    // clap breaks a long list of values wherever it has to.
    let is_list = |line: &str| line.ends_with(']');
    let is_short =
        |line: &&str| line.chars().count() < 20 && !whole.contains(line) && !is_list(line);
    let lines = lines.iter().flat_map(|help| help.lines().map(str::trim));
    let short: Vec<&str> = lines.filter(is_short).collect();
    assert_eq!(short, [""; 0]);
}

#[test]
fn short_help_of_run_counts_the_flags_without_effect() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let listed = run.get_arguments().filter(|arg| !arg.is_hide_set());
    let headings = listed.filter_map(|arg| arg.get_help_heading());
    let count = headings
        .filter(|heading| *heading == "Accepted without effect")
        .count();
    let short = run.clone().render_help().to_string();
    let line = format!("{count} kube-proxy flags are accepted without effect: see the manual");
    assert!(short.contains(&line), "{short}");
    assert!(!short.contains("--ipvs-"), "{short}");
}
