//! What reviewers would otherwise have to say again and again: which module may name which, that
//! every file says what it is for, and how long files may be.
//!
//! Each check is a function from a file to complaints, so that each is seen to complain once.

use crate::source::{File, Part, all_files};
use crate::tidy_files::crate_modules;

/// A module may name only the modules behind it; `*` is all but `linux` and `testing`. The one
/// without a name is the root of the library, and the program. Add to a line in a commit of its
/// own.
const MAY_NAME: &str = "\
clock:
linux:
net:
text:
model: net
rules: net
ruleset: model net rules
inspect: net rules ruleset text
ingest: model net
tracker: model net
select: model net
render: model net rules ruleset select
conntrack: model net render ruleset select
host: conntrack linux net rules
telemetry: clock linux net
status: clock host model net render select telemetry
history: net status telemetry
watch: ingest linux model net telemetry text tracker
events: model watch
health: clock events model net select telemetry
sync: clock conntrack events health history host model net render rules ruleset select status telemetry text tracker watch
shadow: clock host model net render rules ruleset status sync telemetry tracker watch
config: health host ingest inspect model net render rules select sync telemetry text tracker watch
cli: *
app: *
testing: *
: *
";

/// What is a function of its input and nothing else: paths below src, by their beginning.
const PURE: &[&str] = &[
    "conntrack.rs",
    "events/event.rs",
    "health/check.rs",
    "health/state.rs",
    "ingest/",
    "inspect/",
    "model/",
    "net.rs",
    "render/",
    "rules/",
    "ruleset/",
    "select.rs",
    "shadow/comparison.rs",
    "shadow/live.rs",
    "shadow/versions.rs",
    "sync/outcome.rs",
    "sync/problems.rs",
    "sync/schedule.rs",
    "text.rs",
    "tracker/",
];

/// What pure code has no use for.
const IMPURE: &[&str] = &[
    "async ",
    "prometheus",
    "std::env",
    "std::fs",
    "std::process",
    "tokio",
    "tracing",
];

/// A larger file is rarely one thing. A type is not divided to stay below.
const MOST_LINES: usize = 800;
const MOST_LINES_OF_MOD: usize = 80;
/// The columns of a line of code, as rustfmt has them.
const WIDEST: usize = 100;

/// Paths that only some machines have, spelled so that this file is not one of them.
const ELSEWHERE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tm", "p/bg"),
];

pub(crate) type Check = fn(&File) -> Vec<String>;

#[track_caller]
pub(crate) fn hold(check: Check) {
    let complaints: Vec<String> = all_files().iter().flat_map(check).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// The check has something to say of a file, besides nothing of those that there are.
#[track_caller]
pub(crate) fn can_fail(check: Check, path: &str, bad: &str) {
    assert_ne!(
        check(&File::sample(path, bad)),
        Vec::<String>::new(),
        "{bad}"
    );
}

/// The modules that one may name.
fn may_name(module: &str) -> Option<Vec<&'static str>> {
    let rows = || MAY_NAME.lines().filter_map(|line| line.split_once(':'));
    let (_, named) = rows().find(|(name, _)| *name == module)?;
    if named == " *" {
        let all = rows().map(|(name, _)| name);
        return Some(
            all.filter(|name| !["linux", "testing"].contains(name))
                .collect(),
        );
    }
    Some(named.split_whitespace().collect())
}

/// Which modules a file names that its own may not name.
fn arrows(file: &File) -> Vec<String> {
    let Some(module) = file.module() else {
        return Vec::new();
    };
    let Some(allowed) = may_name(module) else {
        return vec![format!(
            "{}: `{module}` is not in the table of imports",
            file.path
        )];
    };
    let named = crate_modules(file).into_iter();
    let wrong = named.filter(|name| name != module && !allowed.contains(&name.as_str()));
    wrong
        .map(|name| format!("{}: `{module}` must not name `{name}`", file.path))
        .collect()
}

fn purity(file: &File) -> Vec<String> {
    let Some(path) = file.path.strip_prefix("src/") else {
        return Vec::new();
    };
    if file.part() == Part::Test || !PURE.iter().any(|pure| path.starts_with(pure)) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (number, line) in file.code() {
        for word in IMPURE.iter().filter(|word| line.contains(**word)) {
            complaints.push(format!("{}:{number}: pure code names `{word}`", file.path));
        }
    }
    complaints
}

fn purpose(file: &File) -> Vec<String> {
    if file.is_rust() && !file.text.starts_with("//! ") {
        return vec![format!(
            "{}: does not begin with `//! ` and its purpose",
            file.path
        )];
    }
    Vec::new()
}

fn length(file: &File) -> Vec<String> {
    if !file.is_rust() {
        return Vec::new();
    }
    let (lines, most) = match file.part() {
        Part::Test => (file.text.lines().count(), MOST_LINES),
        Part::Product if file.path.ends_with("/mod.rs") => (file.own_lines(), MOST_LINES_OF_MOD),
        Part::Product => (file.own_lines(), MOST_LINES),
        Part::Prose => return Vec::new(),
    };
    if lines > most {
        return vec![format!("{}: {lines} lines, at most {most}", file.path)];
    }
    Vec::new()
}

fn blanks(file: &File) -> Vec<String> {
    let lines = (1..).zip(file.text.lines());
    let bad = lines.filter(|(_, line)| line.ends_with([' ', '\t', '\r']));
    bad.map(|(number, _)| format!("{}:{number}: blanks at the end", file.path))
        .collect()
}

/// Comments as wide as rustfmt lets code be. Tables and drawings, which have gaps, may be wider.
fn wide(file: &File) -> Vec<String> {
    let is_wide = |line: &str| {
        let words = line
            .trim_start()
            .trim_start_matches(['/', '!'])
            .trim_start();
        line.chars().count() > WIDEST && !words.contains("  ") && !words.starts_with('|')
    };
    let lines = (1..).zip(file.text.lines());
    let comments = lines.filter(|(_, line)| line.trim_start().starts_with("//"));
    let bad = comments.filter(|(_, line)| is_wide(line));
    bad.map(|(number, _)| format!("{}:{number}: a comment of more columns", file.path))
        .collect()
}

fn elsewhere(file: &File) -> Vec<String> {
    let lines = (1..).zip(file.text.lines());
    let bad = lines.filter(|(_, line)| ELSEWHERE.iter().any(|path| line.contains(path)));
    bad.map(|(number, _)| format!("{}:{number}: a path of another machine", file.path))
        .collect()
}

#[test]
fn arrows_point_down() {
    let nested = "use crate::{\n    net::{Port, Protocol},\n    sync::{Rule},\n};";
    can_fail(arrows, "src/render/a.rs", nested);
    can_fail(arrows, "src/model/a.rs", "x(crate::host::b());");
    hold(arrows);
}

#[test]
fn the_core_is_pure() {
    can_fail(purity, "src/tracker/a.rs", "use tokio::time;");
    can_fail(purity, "src/sync/schedule.rs", "use std::fs::File;");
    hold(purity);
}

#[test]
fn every_file_says_what_it_is_for() {
    can_fail(purpose, "src/a.rs", "use std::fmt;\n");
    hold(purpose);
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let lines = |n| "//\n".repeat(n);
    can_fail(length, "src/a.rs", &lines(801));
    can_fail(length, "src/a/mod.rs", &lines(81));
    can_fail(length, "tests/a.rs", &lines(801));
    hold(length);
}

#[test]
fn lines_do_not_end_in_blanks() {
    can_fail(blanks, "README.md", "a \nb\n");
    hold(blanks);
}

#[test]
fn comments_are_no_wider_than_code() {
    can_fail(wide, "src/a.rs", &format!("/// {}\n", "word ".repeat(20)));
    hold(wide);
}

#[test]
fn nothing_is_about_one_machine() {
    can_fail(elsewhere, "README.md", &format!("see {}x", ELSEWHERE[0]));
    hold(elsewhere);
}
