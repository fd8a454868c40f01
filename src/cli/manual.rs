//! Manual pages, made of the definition of the command line and of the texts of help.
//!
//! Pages are written as roff text without `clap_mangen`, which knows neither examples nor an exit
//! status, and makes a section of every heading of flags.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use roff::{Inline, Roff, bold, italic, roman};

use super::terminal;
use crate::config::{Cli, CommandHelp, help_of};

const PROGRAM: &str = "deltaproxy";

/// Date of the last change of the texts, which `man` shows. The date of the build would make every
/// build a different one.
const DATE: &str = "2026-11-23";

/// Prints the page of a command, or of the program.
pub(super) fn print(command: Option<&str>) -> anyhow::Result<()> {
    let text = ManualPage::new(&program(), command).render();
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))
}

/// Writes the pages of the program and of every command to a folder, which is created if missing.
pub(super) fn write_all(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .map_err(|error| match error.kind() {
            // The cause is clearer than that of mkdir(2).
            io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
            _ => error,
        })
        .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
    let program = program();
    for name in [None].into_iter().chain(commands(&program).map(Some)) {
        let page = ManualPage::new(&program, name);
        let path = folder.join(format!("{}.1", page.title()));
        fs::write(&path, page.render())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

/// Returns the command line with inherited flags and full names of the commands.
fn program() -> Command {
    let mut program = Cli::command();
    program.build();
    program
}

fn commands(program: &Command) -> impl Iterator<Item = &str> {
    let names = program.get_subcommands().map(Command::get_name);
    names.filter(|name| *name != "help")
}

/// Manual page of the program or of a command.
struct ManualPage<'a> {
    program: &'a Command,
    command: &'a Command,
    help: &'static CommandHelp,
}

impl<'a> ManualPage<'a> {
    fn new(program: &'a Command, name: Option<&str>) -> Self {
        let command = name.and_then(|name| program.find_subcommand(name));
        Self {
            program,
            command: command.unwrap_or(program),
            help: help_of(name.unwrap_or_default()),
        }
    }

    fn title(&self) -> String {
        match self.help.name {
            "" => PROGRAM.to_owned(),
            command => format!("{PROGRAM}-{command}"),
        }
    }

    fn render(&self) -> String {
        let mut roff = Roff::new();
        let source = concat!("deltaproxy ", env!("CARGO_PKG_VERSION"));
        let title = self.title();
        roff.control("TH", [&title, "1", DATE, source, "deltaproxy manual"]);
        let about = self.command.get_about().map(ToString::to_string);
        let about = about.unwrap_or_default();
        roff.control("SH", ["NAME"]);
        roff.text([roman(format!("{title} - {about}"))]);
        self.synopsis(&mut roff);
        roff.control("SH", ["DESCRIPTION"]);
        roff.text([roman(format!("{about}."))]);
        for paragraph in self.help.description.split("\n\n") {
            roff.control("PP", []);
            roff.text([roman(one_line(paragraph))]);
        }
        self.commands(&mut roff);
        self.options(&mut roff);
        self.examples(&mut roff);
        entries(&mut roff, "EXIT STATUS", self.help.exit_status);
        entries(&mut roff, "FILES", self.help.files);
        entries(&mut roff, "ENVIRONMENT", self.help.environment);
        self.see_also(&mut roff);
        // The only double backslash is an escaped one, which mandoc wants to be spelled so.
        roff.render().replace(r"\\", r"\e")
    }

    fn synopsis(&self, roff: &mut Roff) {
        roff.control("SH", ["SYNOPSIS"]);
        let usage = self.command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let name = self.command.get_bin_name().unwrap_or(PROGRAM);
        let rest = usage.strip_prefix(name).unwrap_or(usage);
        roff.text([bold(name), roman(one_line(rest))]);
    }

    /// Adds the list of commands to the page of the program.
    fn commands(&self, roff: &mut Roff) {
        if !self.help.name.is_empty() {
            return;
        }
        roff.control("SS", ["Commands"]);
        for command in self.command.get_subcommands() {
            let Some(about) = command.get_about().filter(|_| command.get_name() != "help") else {
                continue;
            };
            let page = format!("{PROGRAM}-{}(1)", command.get_name());
            entry(roff, reference(&page), format!("{about}."));
        }
    }

    fn options(&self, roff: &mut Roff) {
        roff.control("SH", ["OPTIONS"]);
        let args = self.command.get_arguments();
        let args: Vec<&Arg> = args.filter(|arg| !arg.is_hide_set()).collect();
        let mut headings = vec![None];
        for arg in &args {
            if !headings.contains(&arg.get_help_heading()) {
                headings.push(arg.get_help_heading());
            }
        }
        for heading in headings {
            if let Some(heading) = heading {
                roff.control("SS", [heading]);
            }
            let is_below = |arg: &&&Arg| arg.get_help_heading() == heading;
            for arg in args.iter().filter(is_below) {
                entry(roff, spelling(arg), description(arg));
                values(roff, arg);
            }
        }
    }

    fn examples(&self, roff: &mut Roff) {
        roff.control("SH", ["EXAMPLES"]);
        for (index, (caption, lines)) in self.help.examples.iter().enumerate() {
            if index > 0 {
                roff.control("PP", []);
            }
            roff.text([roman(format!("{}:", one_line(caption)))]);
            roff.control("RS", ["4"]).control("nf", []);
            for line in lines.lines() {
                roff.text([roman(line)]);
            }
            roff.control("fi", []).control("RE", []);
        }
    }

    fn see_also(&self, roff: &mut Roff) {
        roff.control("SH", ["SEE ALSO"]);
        let title = self.title();
        let own = commands(self.program).map(|name| format!("{PROGRAM}-{name}"));
        let own = [PROGRAM.to_owned()].into_iter().chain(own);
        let own = own.filter(|page| *page != title);
        let others = self.help.see_also.iter().map(|page| (*page).to_owned());
        let pages = own.map(|page| format!("{page}(1)")).chain(others);
        let mut line = Vec::new();
        for page in pages {
            if !line.is_empty() {
                line.push(roman(", "));
            }
            line.extend(reference(&page));
        }
        roff.text(line);
    }
}

/// Adds a section of names with descriptions.
/// Writes a section, unless it would be empty.
fn entries(roff: &mut Roff, heading: &str, entries: &[(&str, &str)]) {
    if entries.is_empty() {
        return;
    }
    roff.control("SH", [heading]);
    for (name, text) in entries {
        let mut text = one_line(text);
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        entry(roff, vec![bold(*name)], format!("{text}."));
    }
}

fn entry(roff: &mut Roff, term: Vec<Inline>, text: String) {
    roff.control("TP", []);
    roff.text(term);
    roff.text([roman(text)]);
}

/// Renders the name of a page, such as `iptables(8)`.
fn reference(page: &str) -> Vec<Inline> {
    let (name, section) = page.split_at(page.find('(').unwrap_or(page.len()));
    vec![bold(name), roman(section)]
}

/// Renders the names of a flag with its value, or the name of a positional argument.
fn spelling(arg: &Arg) -> Vec<Inline> {
    let names = arg.get_value_names().unwrap_or_default();
    let value = names.join(" ");
    if arg.is_positional() {
        let many = arg.get_action().takes_values() && arg.get_num_args() != Some(1.into());
        let many = if many { "..." } else { "" };
        return vec![italic(value), roman(many)];
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let mut term = Vec::new();
    for name in short.into_iter().chain(long) {
        if !term.is_empty() {
            term.push(roman(", "));
        }
        term.push(bold(name));
    }
    if !arg.get_action().takes_values() {
        return term;
    }
    let is_optional = arg
        .get_num_args()
        .is_some_and(|count| count.min_values() == 0);
    let (before, after) = if is_optional { ("[=", "]") } else { ("=", "") };
    term.extend([roman(before), italic(value), roman(after)]);
    term
}

/// Renders the help of a flag as sentences.
fn description(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let (first, more) = help.split_once("\n\n").unwrap_or((&help, ""));
    let mut text = one_line(first);
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        text = format!("{text} [default: {}]", defaults.join(","));
    }
    let values = possible_values(arg);
    let is_listed = values.iter().all(|value| value.get_help().is_none());
    if is_listed && !values.is_empty() && !arg.is_hide_possible_values_set() {
        let values: Vec<_> = values.iter().map(PossibleValue::get_name).collect();
        text = format!("{text}: {}", values.join(", "));
    }
    text.push('.');
    if !more.is_empty() {
        text = format!("{text} {}", one_line(more));
        if !text.ends_with('.') {
            text.push('.');
        }
    }
    text
}

/// Adds the possible values of a flag with the help of each.
fn values(roff: &mut Roff, arg: &Arg) {
    let values = possible_values(arg).into_iter();
    let mut values = values
        .filter_map(|value| Some((value.get_name().to_owned(), value.get_help()?.to_string())))
        .peekable();
    if values.peek().is_none() {
        return;
    }
    roff.control("RS", []);
    for (value, help) in values {
        entry(roff, vec![bold(value)], format!("{help}."));
    }
    roff.control("RE", []);
}

fn possible_values(arg: &Arg) -> Vec<PossibleValue> {
    if !arg.get_action().takes_values() {
        return Vec::new();
    }
    let values = arg.get_possible_values().into_iter();
    values.filter(|value| !value.is_hide_set()).collect()
}

/// Joins the lines of a paragraph, which `man` breaks again.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}
