//! The few colors: green for what comes, red for what goes, bold for names.
//!
//! Apart so that there are no others. They are always written; whoever prints the text takes them
//! out where they do not belong.

use std::fmt::{self, Display};

use anstyle::{AnsiColor, Style};

/// Text in a style.
pub(super) struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { style, text } = self;
        write!(f, "{style}{text}{style:#}")
    }
}

/// What comes.
pub(super) const fn added<T>(text: T) -> Painted<T> {
    let style = AnsiColor::Green.on_default();
    Painted { style, text }
}

/// What goes.
pub(super) const fn removed<T>(text: T) -> Painted<T> {
    let style = AnsiColor::Red.on_default();
    Painted { style, text }
}

/// What it is about.
pub(super) const fn name<T>(text: T) -> Painted<T> {
    let style = Style::new().bold();
    Painted { style, text }
}
