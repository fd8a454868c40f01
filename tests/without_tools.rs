//! The code of the daemon does not name the commands of the feature `tools`. `tests/run.sh --all`
//! compiles it without them.

use std::collections::BTreeSet;

use crate::source::{File, Part, all_files};

const FEATURE: &str = "#[cfg(feature = \"tools\")]";

/// Code that only the feature has.
const OF_TOOLS: [&str; 4] = [
    "crate::inspect",
    "anstyle::",
    "clap_complete",
    "clap_mangen",
];

/// Returns the paths of the modules that only the feature has, without `.rs`.
fn modules_of_tools(files: &[File]) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.starts_with("src/")) {
        let (folder, _) = file.path.rsplit_once('/').unwrap();
        let lines: Vec<&str> = file.text.lines().collect();
        let declared = lines.windows(2).filter(|pair| pair[0] == FEATURE);
        let names = declared.filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'));
        modules.extend(names.map(|name| format!("{folder}/{name}")));
    }
    modules
}

/// Returns the code of a file without the items of the feature.
fn code_of_daemon(file: &File) -> String {
    let mut code = String::new();
    let (mut is_skipped, mut depth) = (false, 0_usize);
    for (_, line) in file.code() {
        is_skipped |= line.trim() == FEATURE;
        if !is_skipped {
            code += line;
            code.push('\n');
            continue;
        }
        depth += line.matches(['{', '(']).count();
        depth = depth.saturating_sub(line.matches(['}', ')']).count());
        let is_attribute = line.trim().starts_with("#[") || line.trim() == ")]";
        is_skipped = is_attribute || depth > 0 || !line.ends_with([';', '}', ',']);
    }
    code
}

fn names(file: &File) -> Vec<&'static str> {
    let code = code_of_daemon(file);
    let named = OF_TOOLS.into_iter().filter(|name| code.contains(name));
    named.collect()
}

#[test]
fn the_daemon_names_no_tool() {
    let files = all_files();
    let modules = modules_of_tools(&files);
    assert!(modules.contains("src/inspect") && modules.contains("src/cli/explain"));
    let is_of_tools = |path: &str| {
        let mut modules = modules.iter();
        modules.any(|module| {
            let rest = path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    let product = files.iter().filter(|file| file.part() == Part::Product);
    for file in product.filter(|file| !is_of_tools(&file.path)) {
        assert_eq!(names(file), [""; 0], "{}", file.path);
    }
}
