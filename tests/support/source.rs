//! The files of the project, as checks of their text need them.

use std::fs;
use std::path::Path;

/// One file.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root of the project, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// What a file is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Product,
    Test,
    Prose,
}

/// Folders that are the project's; others hold what tools make.
const FOLDERS: &[&str] = &["src", "tests", "benches", "deploy", "docs", ".github"];

/// Kinds of files that people write.
const KINDS: &[&str] = &[
    "rs", "md", "toml", "yaml", "yml", "scn", "tbl", "sh", "justfile",
];

/// Every file of the project that people write.
pub(crate) fn all_files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_file() {
            read(root, &path, &mut files);
        } else if FOLDERS.contains(&name.as_str()) {
            walk(root, &path, &mut files);
        }
    }
    assert!(files.iter().any(|file| file.path == "src/lib.rs"));
    files
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, files);
        } else {
            read(root, &path, files);
        }
    }
}

fn read(root: &Path, path: &Path, files: &mut Vec<File>) {
    let shown = path
        .strip_prefix(root)
        .unwrap()
        .to_string_lossy()
        .replace('\\', "/");
    let kind = shown.rsplit(['.', '/']).next().unwrap_or_default();
    if KINDS.contains(&kind) {
        let text = fs::read_to_string(path).unwrap();
        files.push(File { path: shown, text });
    }
}

impl File {
    /// A file that is not there.
    pub(crate) fn sample(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|kind| kind == "rs")
    }

    pub(crate) fn part(&self) -> Part {
        let is_test = self.path.contains("/tests/")
            || self.path.starts_with("tests/")
            || self.path.starts_with("benches/");
        match () {
            () if !self.is_rust() => Part::Prose,
            () if is_test => Part::Test,
            () => Part::Product,
        }
    }

    /// The module below `crate` that a file of the product belongs to, empty for the root.
    pub(crate) fn module(&self) -> Option<&str> {
        let path = self
            .path
            .strip_prefix("src/")
            .filter(|_| self.part() == Part::Product)?;
        Some(match path.split_once('/') {
            Some((module, _)) => module,
            None if matches!(path, "lib.rs" | "main.rs") => "",
            None => path.trim_end_matches(".rs"),
        })
    }

    /// The lines that are code of the product's own, with their numbers: neither comments nor
    /// inline tests, which are last in a file.
    pub(crate) fn code(&self) -> Vec<(usize, &str)> {
        if !self.is_rust() {
            return Vec::new();
        }
        (1..)
            .zip(self.text.lines().take(self.own_lines()))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(number, line)| (number, line.split(" // ").next().unwrap_or(line)))
            .collect()
    }

    /// How many lines come before inline tests.
    pub(crate) fn own_lines(&self) -> usize {
        let lines: Vec<&str> = self.text.lines().collect();
        let is_inline = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1] == "mod tests {";
        lines.windows(2).position(is_inline).unwrap_or(lines.len())
    }
}
