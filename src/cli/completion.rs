//! Completions for `kubectl deltaproxy`, by the name `kubectl_complete-deltaproxy`.
//!
//! kubectl runs this program with the words after `kubectl deltaproxy`, the last of which is to be
//! completed, and reads a candidate for each line, and a directive.
//!
//! Upstream: k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go, `getPluginCompletions` (v1.37)

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory};

use super::exit::{self, ErrorReport};
use super::terminal;
use crate::config::{Cli, NODE_COMMANDS, ProgramName, is_flag};

/// Directive of cobra: no file names.
const NO_FILES: &str = ":4";

/// Prints the candidates for the last word of a command line, if the name of the program asks for
/// them.
pub(super) fn complete(args: &[OsString]) -> Option<ExitCode> {
    let (program, words) = args.split_first()?;
    if ProgramName::of(program) != ProgramName::KubectlCompletion {
        return None;
    }
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    let text = candidates(&words.collect::<Vec<_>>());
    let printed = terminal::print(text);
    Some(exit::code(printed, &ErrorReport::default()))
}

fn candidates(words: &[String]) -> String {
    let mut program = Cli::command();
    program.build();
    let (last, before) = words
        .split_last()
        .map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let command = before.iter().find_map(|word| program.find_subcommand(word));
    let candidates = match command {
        None => commands(&program),
        Some(command) => match before.last().and_then(|word| flag(command, word)) {
            Some(flag) => values(flag),
            None => flags(command),
        },
    };
    let mut text = String::new();
    for (name, help) in candidates {
        if name.starts_with(last) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name}\t{help}");
        }
    }
    text + NO_FILES + "\n"
}

type Candidates = Vec<(String, String)>;

fn commands(program: &Command) -> Candidates {
    let commands = program.get_subcommands();
    let commands = commands.filter(|command| !NODE_COMMANDS.contains(&command.get_name()));
    commands
        .map(|command| (command.get_name().to_owned(), help(command.get_about())))
        .collect()
}

fn flags(command: &Command) -> Candidates {
    let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
    shown
        .filter_map(|flag| Some((format!("--{}", flag.get_long()?), help(flag.get_help()))))
        .collect()
}

/// Returns the flag that a word is, if its value is the next word.
fn flag<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let mut flags = command.get_arguments();
    flags
        .find(|flag| is_flag(flag, word))
        .filter(|flag| flag.get_action().takes_values())
}

fn values(flag: &Arg) -> Candidates {
    let values = flag.get_possible_values().into_iter();
    values
        .map(|value| (value.get_name().to_owned(), help(value.get_help())))
        .collect()
}

fn help(text: Option<&StyledStr>) -> String {
    text.map_or_else(String::new, ToString::to_string)
}

#[cfg(test)]
#[path = "tests/completion.rs"]
mod tests;
