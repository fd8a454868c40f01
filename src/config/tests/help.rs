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
fn short_help_fits_on_a_screen() {
    for [short, _] in helps(100) {
        assert!(short.lines().count() <= SCREEN, "{short}");
    }
}

#[test]
fn wrapped_help_has_no_short_lines() {
    let unwrapped = helps(0).concat().join("\n");
    let whole: Vec<&str> = unwrapped.lines().map(str::trim).collect();
    for help in [80, 100].map(helps).concat().concat() {
        for line in help.lines().map(str::trim) {
            let is_long = line.chars().count() >= 20;
            assert!(is_long || whole.contains(&line), "`{line}` in\n{help}");
        }
    }
}

#[test]
fn short_help_of_run_counts_the_flags_without_effect() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let headings = run.get_arguments().filter_map(|arg| arg.get_help_heading());
    let count = headings
        .filter(|heading| *heading == "Accepted without effect")
        .count();
    let short = run.clone().render_help().to_string();
    let line = format!("{count} kube-proxy flags are accepted without effect: see the manual");
    assert!(short.contains(&line), "{short}");
    assert!(!short.contains("--ipvs-"), "{short}");
}
