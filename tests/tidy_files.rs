//! Checks that the imports of product files form no circle: a file can be read after those that it
//! names, and without those that name it.
//!
//! A `mod.rs` that re-exports a name stands for the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{File, Part, all_files};

/// Keywords that define an item, which the name of the item follows.
const DEFINITIONS: &[&str] = &[
    "const",
    "enum",
    "fn",
    "macro_rules!",
    "static",
    "struct",
    "trait",
    "type",
    "union",
];

/// Path of a module or an item, from `crate` on, without it.
type Path = Vec<String>;

/// A `use` of one name.
struct Import {
    is_public: bool,
    path: Path,
    alias: String,
}

/// A file as a node of the graph.
struct Module {
    file: String,
    is_folder: bool,
    imports: Vec<Import>,
    /// Code without imports, comments, the content of strings, and tests.
    body: String,
    definitions: BTreeSet<String>,
}

struct Modules(BTreeMap<Path, Module>);

/// Edges: from a file to the files that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

impl Modules {
    fn of(files: &[File]) -> Self {
        let product = files.iter().filter(|file| file.part() == Part::Product);
        let modules = product.filter_map(|file| {
            let path = file.path.strip_prefix("src/")?.strip_suffix(".rs")?;
            let mut path: Path = path.split('/').map(str::to_owned).collect();
            let is_folder = ["mod", "lib"].contains(&path.last()?.as_str());
            if is_folder {
                path.pop();
            }
            let (imports, body) = without_imports(&plain_code(file));
            let module = Module {
                file: file.path.clone(),
                is_folder,
                imports,
                definitions: definitions(&body),
                body,
            };
            (path != ["main"]).then_some((path, module))
        });
        Self(modules.collect())
    }

    /// The path from `crate` on, if it is not of another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Path> {
        let (mut base, mut rest) = (module.to_vec(), path);
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => base.clear(),
                "super" => drop(base.pop()),
                "self" => {}
                _ => break,
            }
            rest = others;
        }
        let is_relative = rest.len() == path.len();
        base.extend(rest.iter().take(1).cloned());
        let is_ours = !is_relative || self.0.contains_key(&base);
        base.extend(rest.iter().skip(1).cloned());
        is_ours.then_some(base)
    }

    /// The module whose file defines what a path names.
    fn definer(&self, path: &[String], depth: usize) -> Option<&Module> {
        let length = (0..=path.len())
            .rev()
            .find(|length| self.0.contains_key(&path[..*length]))?;
        let (at, rest) = path.split_at(length);
        let module = &self.0[at];
        let Some(name) = rest.first().filter(|_| depth < 8) else {
            return Some(module);
        };
        if module.definitions.contains(name) {
            return Some(module);
        }
        let named = module.imports.iter().find(|import| import.alias == *name);
        if let Some(import) = named {
            let target = self.absolute(at, &import.path)?;
            return self.definer(&[&target, &rest[1..]].concat(), depth + 1);
        }
        let globs = module.imports.iter().filter(|import| import.alias == "*");
        let mut targets = globs.filter_map(|import| {
            let target = self.absolute(at, &import.path[..import.path.len() - 1])?;
            self.definer(&[target.as_slice(), rest].concat(), depth + 1)
        });
        let defines = |target: &&Module| target.definitions.contains(name);
        Some(targets.find(defines).unwrap_or(module))
    }

    fn graph(&self) -> Graph {
        let edges = self.0.iter().map(|(path, module)| {
            let named = self.named(path, module);
            let definers = named.iter().filter_map(|path| self.definer(path, 0));
            let others = definers.map(|other| other.file.clone());
            let others = others.filter(|other| *other != module.file).collect();
            (module.file.clone(), others)
        });
        edges.collect()
    }

    /// The paths that a file names, apart from those that it only re-exports.
    fn named(&self, at: &[String], module: &Module) -> BTreeSet<Path> {
        let (mut named, mut aliases) = (BTreeSet::new(), BTreeMap::new());
        for import in &module.imports {
            let Some(mut path) = self.absolute(at, &import.path) else {
                continue;
            };
            let known = self.0.get(&path);
            if known.is_some() {
                aliases.insert(import.alias.clone(), path.clone());
            }
            let is_folder = known.is_some_and(|known| known.is_folder);
            if import.alias == "*" {
                path.pop();
            }
            let is_reexport = import.is_public && module.is_folder;
            if !(is_folder || is_reexport) {
                named.insert(path);
            }
        }
        for path in paths(&module.body) {
            let first = &path[0];
            let child = [at, std::slice::from_ref(first)].concat();
            named.extend(match aliases.get(first) {
                _ if ["crate", "self", "super"].contains(&first.as_str()) => {
                    self.absolute(at, &path)
                }
                Some(target) => Some([target, &path[1..]].concat()),
                None if self.0.contains_key(&child) => Some([at, &path].concat()),
                None => None,
            });
        }
        named
    }
}

/// The code of a file without comments, the content of strings, and tests.
fn plain_code(file: &File) -> String {
    let mut code = String::new();
    let mut skipped: Option<String> = None;
    for (_, line) in file.code() {
        let indent = line.len() - line.trim_start().len();
        let ends = |close: &str| line.starts_with(&format!("{}{close}", " ".repeat(indent)));
        match &skipped {
            Some(blanks) if *blanks != line[..indent] => {}
            Some(_) if line.trim_start().starts_with("#[") => {}
            Some(_) if ends("}") || line.ends_with([';', ',', '}']) => skipped = None,
            Some(_) => {}
            None if line.trim() == "#[cfg(test)]" => skipped = Some(line[..indent].to_owned()),
            None => match line
                .split_once("pub(in ")
                .and_then(|(_, rest)| rest.split_once(')'))
            {
                Some((_, item)) => code.extend([&line[..indent], "pub", item, "\n"]),
                None => code.extend([line, "\n"]),
            },
        }
    }
    let mut plain = String::new();
    for (number, part) in code
        .replace("\\\\", "")
        .replace("\\\"", "")
        .split('"')
        .enumerate()
    {
        plain.push_str(if number % 2 == 0 { part } else { "\"\"" });
    }
    plain
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && !"_!".contains(c))
        .filter(|word| !word.is_empty())
}

fn definitions(body: &str) -> BTreeSet<String> {
    let pairs = words(body).zip(words(body).skip(1));
    let defined = pairs.filter(|(keyword, _)| DEFINITIONS.contains(keyword));
    defined.map(|(_, name)| name.to_owned()).collect()
}

/// Takes the imports out of code.
fn without_imports(code: &str) -> (Vec<Import>, String) {
    let (mut imports, mut body) = (Vec::new(), String::new());
    let mut tree: Option<(bool, String)> = None;
    for line in code.lines() {
        let trimmed = line.trim();
        let start = trimmed.split_once("use ").filter(|(before, _)| {
            before.is_empty() || before.starts_with("pub") && before.ends_with([' ', ')'])
        });
        match (&mut tree, start) {
            (Some((_, text)), _) => text.push_str(trimmed),
            (None, Some((before, after))) => tree = Some((!before.is_empty(), after.to_owned())),
            (None, None) => body.extend([line, "\n"]),
        }
        if let Some((is_public, text)) = tree.take_if(|(_, text)| text.ends_with(';')) {
            let mut names = Vec::new();
            expand(&[], text.trim_end_matches(';'), &mut names);
            imports.extend(names.into_iter().map(|(path, alias)| Import {
                is_public,
                path,
                alias,
            }));
        }
    }
    (imports, body)
}

/// Adds the paths of a tree of imports, each with the name that it gets.
fn expand(before: &[String], tree: &str, names: &mut Vec<(Path, String)>) {
    let (path, list) = match tree.split_once('{') {
        Some((path, list)) => (path, Some(list.strip_suffix('}').unwrap())),
        None => (tree, None),
    };
    let (path, alias) = path.split_once(" as ").unwrap_or((path, ""));
    let segments = path
        .split("::")
        .map(str::trim)
        .filter(|one| !one.is_empty());
    let mut path: Path = before
        .iter()
        .cloned()
        .chain(segments.map(str::to_owned))
        .collect();
    if let Some(list) = list {
        let (mut depth, mut start) = (0_i32, 0);
        for (at, c) in list.char_indices() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if c == ',' && depth == 0 {
                expand(&path, &list[start..at], names);
                start = at + 1;
            }
        }
        return expand(&path, &list[start..], names);
    }
    if path.len() > 1 {
        drop(path.pop_if(|last| last == "self"));
    }
    let alias = if alias.is_empty() { path.last() } else { None }
        .cloned()
        .unwrap_or_else(|| alias.trim().to_owned());
    if !tree.trim().is_empty() {
        names.push((path, alias));
    }
}

/// Every path of two segments or more in code.
fn paths(body: &str) -> Vec<Path> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let tokens = body
        .split(|c: char| !is_part(c))
        .filter(|token| token.contains("::"));
    let paths = tokens.map(|token| {
        let segments = token.split("::").map(|one| one.trim_matches(':'));
        segments
            .filter(|one| !one.is_empty())
            .map(str::to_owned)
            .collect::<Path>()
    });
    paths.filter(|path| path.len() > 1).collect()
}

/// The modules of the library that the paths of a file name.
pub(crate) fn crate_modules(file: &File) -> BTreeSet<String> {
    let (imports, body) = without_imports(&plain_code(file));
    let imported = imports.into_iter().map(|import| import.path);
    let paths = imported.chain(paths(&body));
    let ours = paths.filter(|path| path[0] == "crate");
    let modules = ours.filter_map(|path| path.into_iter().nth(1));
    modules
        .filter(|name| name.starts_with(char::is_lowercase))
        .collect()
}

/// The files that a file leads to.
fn reachable<'g>(graph: &'g Graph, from: &str) -> BTreeSet<&'g str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut waiting: Vec<&str> = graph[from].iter().map(String::as_str).collect();
    while let Some(file) = waiting.pop() {
        if found.insert(file) {
            waiting.extend(graph[file].iter().map(String::as_str));
        }
    }
    found
}

/// Every import that is part of a circle.
fn circles(files: &[File]) -> Vec<String> {
    let graph = Modules::of(files).graph();
    let edges = graph
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let circular = edges.filter(|(from, to)| reachable(&graph, to).contains(from.as_str()));
    circular
        .map(|(from, to)| format!("{from}: importing {to} is part of a circle"))
        .collect()
}

#[test]
fn imports_form_no_circle() {
    let files = all_files();
    let edges: usize = Modules::of(&files)
        .graph()
        .values()
        .map(BTreeSet::len)
        .sum();
    assert!(edges > 1000, "{edges} imports");
    let circles = circles(&files);
    assert!(circles.is_empty(), "\n{}\n", circles.join("\n"));
}

#[test]
fn a_circle_through_a_reexport_is_found() {
    let files = [
        File::sample("src/lib.rs", "pub mod m;\n"),
        File::sample(
            "src/m/mod.rs",
            "mod a;\nmod b;\npub use a::A;\npub use b::B;\n",
        ),
        File::sample("src/m/a.rs", "use super::B;\npub struct A(B);\n"),
        File::sample("src/m/b.rs", "use super::a::A;\npub struct B(A);\n"),
    ];
    assert_eq!(circles(&files).len(), 2);
}
