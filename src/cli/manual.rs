//! Manual pages and completion scripts, made of the definition of the command line and of the texts
//! of help.
//!
//! `clap_mangen` renders what clap knows; examples, exit status, files and environment are sections
//! of our own.

use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::terminal;
use crate::config::{Cli, CommandHelp, ENVIRONMENT, FILES, INVALID_FLAGS, help_of};

const PROGRAM: &str = "deltaproxy";

/// Date of the last change of the texts, which `man` shows. The date of the build would make every
/// build a different one.
const DATE: &str = "2026-11-27";

/// Writes all pages to a folder, or prints one.
pub(super) fn pages(command: Option<&str>, folder: Option<&Path>) -> anyhow::Result<()> {
    folder.map_or_else(|| print(command), write_all)
}

fn print(command: Option<&str>) -> anyhow::Result<()> {
    terminal::print(page(&program(), command)?)
}

/// Writes the pages of the program and of every command to a folder, which is created if missing.
fn write_all(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .map_err(|error| match error.kind() {
            // The cause is clearer than that of mkdir(2).
            io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
            _ => error,
        })
        .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
    let program = program();
    for name in [None].into_iter().chain(commands(&program).map(Some)) {
        let path = folder.join(format!("{}.1", title(name.unwrap_or_default())));
        fs::write(&path, page(&program, name)?)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

/// Returns the command line with inherited flags and full names of the commands.
fn program() -> Command {
    let mut program = Cli::command()
        .disable_help_subcommand(true)
        .subcommand_help_heading("COMMANDS");
    program.build();
    program
}

fn commands(program: &Command) -> impl Iterator<Item = &str> {
    program.get_subcommands().map(Command::get_name)
}

fn title(command: &str) -> String {
    match command {
        "" => PROGRAM.to_owned(),
        command => format!("{PROGRAM}-{command}"),
    }
}

fn page(program: &Command, name: Option<&str>) -> io::Result<String> {
    let command = name.and_then(|name| program.find_subcommand(name));
    let mut command = command.unwrap_or(program).clone();
    // The synopsis would name every flag.
    let usage = command.render_usage().to_string().replace('\n', " ");
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let command = command.mut_args(one_paragraph).override_usage(usage);
    let help = help_of(name.unwrap_or_default());
    let about = command.get_about().map(ToString::to_string);
    let page = Man::new(command)
        .date(DATE)
        .source(concat!("deltaproxy ", env!("CARGO_PKG_VERSION")))
        .manual("deltaproxy manual");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    description(&about.unwrap_or_default(), help).to_writer(&mut text)?;
    if name.is_none() {
        page.render_subcommands_section(&mut text)?;
    }
    page.render_options_section(&mut text)?;
    let mut own = Roff::new();
    examples(&mut own, help);
    let status = exit_status(help);
    entries(&mut own, "EXIT STATUS", &status);
    if name.is_none() {
        entries(&mut own, "FILES", FILES);
        entries(&mut own, "ENVIRONMENT", ENVIRONMENT);
    }
    see_also(&mut own, program, help);
    own.to_writer(&mut text)?;
    // Each part begins with the same definition of an apostrophe.
    let preamble = Roff::new().render();
    let text = String::from_utf8_lossy(&text).replace(&preamble, "");
    // mandoc wants one empty line to be spelled so, and an escaped backslash as well, which is the
    // only double one.
    let text = text
        .replace("\n.br\n\n.br\n", "\n.sp\n")
        .replace(r"\\", r"\e");
    Ok(preamble + &text)
}

/// Makes one paragraph of the help of a flag, because `man` does not begin a paragraph after an
/// empty line; and removes the heading of the flag, which would become a section.
fn one_paragraph(arg: Arg) -> Arg {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<String> = help.split("\n\n").map(one_line).collect();
    let help = paragraphs.join(". ");
    arg.help_heading(None).help(help.clone()).long_help(help)
}

fn description(about: &str, help: &CommandHelp) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(format!("{about}."))]);
    for paragraph in help.description.split("\n\n") {
        roff.control("PP", []);
        roff.text([roman(one_line(paragraph))]);
    }
    roff
}

fn examples(roff: &mut Roff, help: &CommandHelp) {
    roff.control("SH", ["EXAMPLES"]);
    let (mut caption, mut is_first) = (String::new(), true);
    let mut lines = help.examples.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("  ") else {
            caption = format!("{caption} {line}");
            continue;
        };
        if !caption.is_empty() {
            if !std::mem::take(&mut is_first) {
                roff.control("PP", []);
            }
            roff.text([roman(std::mem::take(&mut caption).trim_start())]);
            roff.control("RS", ["4"]).control("nf", []);
        }
        roff.text([roman(command)]);
        if lines.peek().is_none_or(|next| !next.starts_with(' ')) {
            roff.control("fi", []).control("RE", []);
        }
    }
}

/// Returns the exit codes with their meanings.
fn exit_status(help: &CommandHelp) -> Vec<(&str, String)> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for line in help.exit_status.lines().chain([INVALID_FLAGS]) {
        match (line.split_once("  "), entries.last_mut()) {
            // Further lines of a meaning are indented.
            (Some(("", more)), Some((_, meaning))) => *meaning += more,
            (Some((code, meaning)), _) => entries.push((code, meaning.to_owned())),
            (None, _) => {}
        }
    }
    entries
}

/// Writes a section of names with descriptions.
fn entries<T: AsRef<str>>(roff: &mut Roff, heading: &str, entries: &[(&str, T)]) {
    roff.control("SH", [heading]);
    for (name, text) in entries {
        let mut text = one_line(text.as_ref());
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        roff.control("TP", []);
        roff.text([bold(*name)]);
        roff.text([roman(format!("{text}."))]);
    }
}

fn see_also(roff: &mut Roff, program: &Command, help: &CommandHelp) {
    let own = [""].into_iter().chain(commands(program));
    let own = own.filter(|name| *name != help.name);
    let own = own.map(|name| format!("{}(1)", title(name)));
    let others = ["iptables(8)", "iptables-save(8)", "iptables-restore(8)"];
    let pages = own.chain(others.map(str::to_owned));
    let mut line: Vec<Inline> = Vec::new();
    for page in pages {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        let (name, section) = page.split_at(page.find('(').unwrap_or(page.len()));
        line.extend([bold(name), roman(section)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text(line);
}

/// Joins the lines of a paragraph, which `man` breaks again.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Prints the completion script of a shell.
pub(super) fn script(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "deltaproxy", &mut script);
    terminal::print(script)
}
