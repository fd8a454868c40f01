//! Words of messages that all modules share.

use std::fmt::Display;

/// Returns the first items of a list, and the number of the others: `a, b and 3 more`.
pub(crate) fn first_of<T: ToString>(items: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut items = items.into_iter();
    let first = items.by_ref().take(most).map(|item| item.to_string());
    let first = first.collect::<Vec<_>>().join(", ");
    match items.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns a number with its noun: `1 Service` or `2 Services`.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == 1.into() { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns items between backticks, separated by commas.
pub(crate) fn quoted<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items = items.into_iter().map(|item| format!("`{item}`"));
    items.collect::<Vec<_>>().join(", ")
}

/// Returns each item on a line of its own.
pub(crate) fn on_lines<T: ToString>(items: &[T]) -> String {
    let lines: Vec<String> = items.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
