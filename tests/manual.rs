//! Manual pages: their sections, their form, and the files of `man --dir`.

use std::fs;
use std::path::Path;

use crate::support::needs;
use crate::support::program::{Ran, command, run};

const COMMANDS: [&str; 13] = [
    "run",
    "render",
    "status",
    "shadow-report",
    "check",
    "diff",
    "services",
    "explain",
    "history",
    "bundle",
    "cleanup",
    "completions",
    "man",
];

const SECTIONS: [&str; 10] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "COMMANDS",
    "OPTIONS",
    "EXAMPLES",
    "EXIT STATUS",
    "FILES",
    "ENVIRONMENT",
    "SEE ALSO",
];

/// Writes all pages, and returns the exit code and stderr.
fn write_to(folder: &Path) -> (Option<i32>, String) {
    let folder = folder.to_str().unwrap();
    let output = run(&["man", "--dir", folder]);
    assert_eq!(output.stdout, "");
    (output.code, output.stderr)
}

/// All pages by their names, which are those of the files.
fn pages() -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(write_to(folder.path()), (Some(0), String::new()));
    let files = fs::read_dir(folder.path()).unwrap();
    let mut pages: Vec<(String, String)> = files
        .map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            (name, fs::read_to_string(file.path()).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

#[test]
fn every_page_has_all_sections_in_order() {
    for (name, page) in pages() {
        let sections = page.split("\n.SH ").skip(1);
        let sections: Vec<(&str, &str)> = sections
            .map(|text| text.split_once('\n').unwrap())
            .collect();
        let names: Vec<&str> = sections
            .iter()
            .map(|(name, _)| name.trim_matches('"'))
            .collect();
        let lacks = |section: &str| match section {
            // Those of all commands.
            "COMMANDS" | "FILES" | "ENVIRONMENT" => name != "deltaproxy.1",
            _ => false,
        };
        let expected = SECTIONS.into_iter().filter(|section| !lacks(section));
        assert_eq!(names, expected.collect::<Vec<_>>(), "{name}");
        for (section, content) in sections {
            assert!(!content.trim().is_empty(), "{name}: {section}");
        }
    }
}

#[test]
fn every_flag_is_on_its_page() {
    for name in COMMANDS {
        let help = run(&[name, "--help"]).stdout;
        let page = run(&["man", name]).stdout;
        let flags = help.lines().filter_map(|line| {
            let (_, flag) = line.split_once("--").filter(|(before, _)| {
                let before = before.trim();
                before.is_empty() || before.len() == 3 && before.ends_with(',')
            })?;
            line.starts_with("  ").then_some(flag)
        });
        // Examples have their flags further to the right.
        let flags = flags.filter_map(|flag| flag.split([' ', '[', '=', '\n']).next());
        let flags: Vec<&str> = flags.collect();
        assert!(flags.contains(&"help"), "{help}");
        for flag in flags {
            let spelled = format!("\\-\\-{}", flag.replace('-', "\\-"));
            assert!(page.contains(&spelled), "{name}: --{flag}");
        }
    }
}

#[test]
fn pages_satisfy_mandoc() {
    needs!(Kernel);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(write_to(folder.path()), (Some(0), String::new()));
    for file in fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let path = path.to_str().unwrap();
        let output = Ran::of(&mut command("mandoc", &["-Tlint", "-Wwarning", path]));
        assert_eq!((output.stdout, output.stderr), Default::default());
    }
    // The check itself can fail.
    let bad = folder.path().join("bad.1");
    fs::write(&bad, ".TH bad 1\n.SH NAME\n.XX\n").unwrap();
    let bad = bad.to_str().unwrap();
    let output = Ran::of(&mut command("mandoc", &["-Tlint", "-Wwarning", bad]));
    assert!(!output.is_success());
}

#[test]
fn a_folder_gets_the_same_pages_that_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("share/man/man1");
    for _ in 0..2 {
        // The folder is created; the second time, its pages are replaced.
        assert_eq!(write_to(&folder), (Some(0), String::new()));
    }
    let mut expected = vec!["deltaproxy.1".to_owned()];
    expected.extend(COMMANDS.map(|name| format!("deltaproxy-{name}.1")));
    expected.sort();
    let names: Vec<String> = pages().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, expected);
    for name in names {
        let command = name.trim_start_matches("deltaproxy").trim_end_matches(".1");
        let command = command.trim_start_matches('-');
        let args = [&["man"][..], &[command]].concat();
        let args = if command.is_empty() {
            &args[..1]
        } else {
            &args
        };
        let printed = run(args);
        let written = fs::read_to_string(folder.join(&name)).unwrap();
        assert_eq!(printed.stdout, written, "{name}");
    }
}

#[test]
fn pages_that_cannot_be_written_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = |path: &Path, problem: &str| {
        let expected = format!("error: cannot {problem}\n");
        assert_eq!(write_to(path), (Some(1), expected), "{}", path.display());
    };
    let shown = file.display();
    error(&file, &format!("create folder `{shown}`: not a directory"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
    let below = file.join("man1");
    error(
        &below,
        &format!("create folder `{shown}/man1`: Not a directory (os error 20)"),
    );
    // Not even root may write there.
    let proc = Path::new("/proc/self");
    error(
        proc,
        "write `/proc/self/deltaproxy.1`: No such file or directory (os error 2)",
    );
    let both = run(&["man", "run", "--dir", "x"]);
    both.fails(64, &["--dir"]);
}
