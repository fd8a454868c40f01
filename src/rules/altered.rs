//! Recognizes rules of a dump that were altered after it was saved, and can be parsed all the same.
//!
//! Their meaning is not that of the rule in the kernel.

use super::grammar::{Rule, Target};

/// Reports whether an editor, a web page or a person has replaced parts of a rule.
pub(super) fn is_altered(spec: &str, rule: &Rule) -> bool {
    has_replaced_quotes(spec) || has_redacted_target(rule)
}

/// Reports whether a word begins with a quote that stands in place of `"`: a comment of one word
/// would be taken for another name.
fn has_replaced_quotes(spec: &str) -> bool {
    const REPLACED: [&str; 5] = ["\u{201c}", "\u{201d}", "\u{2018}", "\u{2019}", "&quot;"];
    let is_quoted = |word: &str| REPLACED.iter().any(|quote| word.starts_with(quote));
    !spec.contains('"') && spec.split(' ').any(is_quoted)
}

/// Reports whether the destination of DNAT has letters that no address has, such as `x.x.x.x`.
fn has_redacted_target(rule: &Rule) -> bool {
    let Some(Target::Other(target)) = &rule.target else {
        return false;
    };
    let to = target.options.strip_prefix("--to-destination ");
    let to = to.and_then(|options| options.split(' ').next());
    let is_of_address = |c: char| c.is_ascii_hexdigit() || ".:[]-/".contains(c);
    to.is_some_and(|to| !to.chars().all(is_of_address))
}
