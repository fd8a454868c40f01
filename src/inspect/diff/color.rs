//! Colors of text output: green for additions, red for removals, bold for names.
//!
//! Escape codes are always written. The command that prints the text strips them where the output
//! is not a terminal.

use std::fmt::{self, Display};

use anstyle::{AnsiColor, Style};

/// Text in a style.
pub(super) struct Styled<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { style, text } = self;
        write!(f, "{style}{text}{style:#}")
    }
}

/// Marks text that only the desired side has.
pub(super) const fn added<T>(text: T) -> Styled<T> {
    let style = AnsiColor::Green.on_default();
    Styled { style, text }
}

/// Marks text that only the live side has.
pub(super) const fn removed<T>(text: T) -> Styled<T> {
    let style = AnsiColor::Red.on_default();
    Styled { style, text }
}

/// Marks the name of a service port, or a title.
pub(super) const fn name<T>(text: T) -> Styled<T> {
    let style = Style::new().bold();
    Styled { style, text }
}
