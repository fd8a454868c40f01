//! Checks the names of types: each says something, and no two types share one.

use std::collections::BTreeMap;

use crate::source::{File, Part, all_files};
use crate::tidy::{can_fail, hold};

/// Parts of type names that say nothing.
const EMPTY_NAMES: &[&str] = &[
    "Data", "Handler", "Helper", "Impl", "Info", "Manager", "Util",
];

/// Returns the type that a line declares. Types of `impl` blocks are of their traits.
fn declared_type(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let item = item.strip_prefix("pub").unwrap_or(item);
    let item = match item.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => item,
    };
    let (keyword, name) = item.trim_start().split_once(' ')?;
    let is_type = matches!(keyword, "struct" | "enum" | "trait" | "union")
        || keyword == "type" && !line.starts_with(' ');
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &name[..end.unwrap_or(name.len())];
    // In a macro the name is a parameter.
    (is_type && !name.is_empty()).then_some(name)
}

/// Number of types in `sync` and `render`. It may only become smaller.
const TYPES_OF_THE_CORE: usize = 105;

fn names(file: &File) -> Vec<String> {
    let code = file.code().into_iter();
    let types = code.filter_map(|(number, line)| Some((number, declared_type(line)?)));
    let empty = types.filter(|(_, name)| EMPTY_NAMES.iter().any(|part| has_word(name, part)));
    empty
        .map(|(number, name)| format!("{}:{number}: `{name}` says nothing", file.path))
        .collect()
}

/// Reports whether a name in capitals and small letters has `word` as one of its words.
fn has_word(name: &str, word: &str) -> bool {
    name.match_indices(word).any(|(at, _)| {
        let after = name[at + word.len()..].trim_start_matches('s');
        !after.starts_with(char::is_lowercase)
    })
}

/// Types of product code in `src` whose name another one has.
fn shared_names(files: &[File]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let is_product = |file: &&File| file.part() == Part::Product && file.path.starts_with("src/");
    for file in files.iter().filter(is_product) {
        for (number, line) in file.code() {
            if let Some(name) = declared_type(line) {
                let place = format!("{}:{number}", file.path);
                places.entry(name).or_default().push(place);
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    let shared = places.into_iter();
    shared
        .map(|(name, places)| format!("`{name}` is declared at {}", places.join(" and ")))
        .collect()
}

#[test]
fn names_say_something() {
    can_fail(names, "src/a.rs", "pub(crate) struct NodeInfo {");
    can_fail(names, "src/a.rs", "trait EventHandlers {");
    hold(names);
}

/// A new reader has to know all of them to change how rules reach the kernel.
#[test]
fn the_core_has_no_more_types() {
    let is_core = |file: &&File| {
        file.part() == Part::Product
            && ["src/sync/", "src/render/"]
                .iter()
                .any(|core| file.path.starts_with(core))
    };
    let files = all_files();
    let code = files.iter().filter(is_core).flat_map(File::code);
    let types = code.filter(|(_, line)| declared_type(line).is_some());
    assert_eq!(types.count(), TYPES_OF_THE_CORE);
}

#[test]
fn every_type_has_a_name_of_its_own() {
    let two = ["src/a.rs", "src/b/c.rs"].map(|path| File::sample(path, "pub(super) enum A {"));
    assert_eq!(shared_names(&two).len(), 1);
    let shared = shared_names(&all_files());
    assert!(shared.is_empty(), "\n{}\n", shared.join("\n"));
}
