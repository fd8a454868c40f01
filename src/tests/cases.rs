//! Tables for tests: each line is a case, and the indented lines below it are its text.

pub(crate) fn cases(table: &str) -> Vec<(&str, String)> {
    let mut cases: Vec<(&str, String)> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("    "), cases.last_mut()) {
            (Some(text), Some((_, whole))) => {
                if !whole.is_empty() {
                    whole.push('\n');
                }
                whole.push_str(text);
            }
            _ => cases.push((line, String::new())),
        }
    }
    assert!(!cases.is_empty());
    cases
}
