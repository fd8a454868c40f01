//! Lines into statements.

use std::collections::BTreeMap;

use super::names;

/// One statement with the block below it.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Its line, chain names written out, split at blanks.
    pub(crate) words: Vec<String>,
    /// The indented lines below, without their indent, chain names written out.
    pub(crate) block: Vec<String>,
    /// How many lines of the file the block takes.
    pub(crate) block_lines: usize,
}

/// Splits a file. Errors come with their line.
pub(crate) fn read(content: &str) -> Result<Vec<Statement>, (usize, String)> {
    let mut statements: Vec<Statement> = Vec::new();
    for (index, line) in content.lines().enumerate() {
        let number = index + 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let text = names::expand(line.trim()).map_err(|error| (number, error))?;
        if line.starts_with(' ') {
            let Some(last) = statements.last_mut() else {
                return Err((number, "a block needs a statement above it".to_owned()));
            };
            last.block.push(text);
            last.block_lines = number - last.line;
        } else {
            statements.push(Statement {
                line: number,
                words: words(&text).map_err(|error| (number, error))?,
                block: Vec::new(),
                block_lines: 0,
            });
        }
    }
    Ok(statements)
}

/// Words between blanks; double quotes keep blanks together and are dropped.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if quoted {
        return Err("a quote does not end".to_owned());
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

/// The file with other blocks below some statements, by line of the statement: how many lines to
/// drop, and what to put there.
pub(crate) fn replace(content: &str, blocks: &BTreeMap<usize, (usize, Vec<String>)>) -> String {
    let mut out = String::new();
    let mut skip = 0;
    for (index, line) in content.lines().enumerate() {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        out.push_str(line);
        out.push('\n');
        if let Some((dropped, block)) = blocks.get(&(index + 1)) {
            skip = *dropped;
            for line in block {
                out.push_str("    ");
                out.push_str(&names::collapse(line, content));
                out.push('\n');
            }
        }
    }
    out
}
