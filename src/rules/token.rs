//! Words and quotes of a line.
//!
//! Apart because quoting is the one thing that `iptables-restore` and a shell do differently: a
//! backslash escapes only inside double quotes, and the closing quote ends the word.

use std::borrow::Cow;
use std::fmt;

use super::reason::Reason;

/// The longest chain name, in bytes: `XT_EXTENSION_MAXNAMELEN` less the final zero. A longer one
/// is refused by both back ends.
pub(super) const MAX_CHAIN_NAME: usize = 28;

/// One word of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// Without its quotes and escapes.
    pub(super) text: Cow<'a, str>,
    /// A quoted word is a value even if it looks like an option.
    pub(super) quoted: bool,
}

impl Token<'_> {
    /// Whether this begins an option.
    pub(super) fn is_option(&self) -> bool {
        !self.quoted && self.text.len() > 1 && self.text.starts_with('-')
    }

    /// Whether this negates the option that follows.
    pub(super) fn is_not(&self) -> bool {
        !self.quoted && self.text == "!"
    }
}

/// Splits `line` into its words.
pub(super) fn tokens(line: &str) -> Result<Vec<Token<'_>>, Reason> {
    let mut found = Vec::with_capacity(24);
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = rest.find([' ', '\t', '"']).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let (token, after) = match after.strip_prefix('"') {
            Some(inside) => quoted(word, inside)?,
            None => (plain(word), after),
        };
        found.push(token);
        rest = after.trim_start();
    }
    Ok(found)
}

const fn plain(word: &str) -> Token<'_> {
    Token {
        text: Cow::Borrowed(word),
        quoted: false,
    }
}

/// The word that begins with `word` and goes on inside quotes, and what follows it.
fn quoted<'a>(word: &'a str, inside: &'a str) -> Result<(Token<'a>, &'a str), Reason> {
    let end = inside.find(['"', '\\']).ok_or(Reason::OpenQuote)?;
    if let Some((text, after)) = inside.split_at_checked(end)
        && let (Some(after), true) = (after.strip_prefix('"'), word.is_empty())
    {
        let text = Cow::Borrowed(text);
        return Ok((Token { text, quoted: true }, after));
    }
    let mut text = String::from(word);
    let mut chars = inside.chars();
    loop {
        match chars.next().ok_or(Reason::OpenQuote)? {
            '"' => break,
            '\\' => text.push(chars.next().ok_or(Reason::OpenQuote)?),
            other => text.push(other),
        }
    }
    let text = Cow::Owned(text);
    Ok((Token { text, quoted: true }, chars.as_str()))
}

/// Prints a text that libxtables knows to be one: bare only if it is a single plain word.
pub(super) fn write_text(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !text.is_empty() && text.chars().all(is_plain) {
        return f.write_str(text);
    }
    write_quoted(f, text)
}

/// Prints a value whose meaning is unknown: bare if it reads back as the same word.
pub(super) fn write_value(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    let is_odd = text.is_empty() || text == "!" || text.starts_with('-');
    if is_odd || text.contains([' ', '\t', '"', '\\', '\'']) {
        return write_quoted(f, text);
    }
    f.write_str(text)
}

/// A name, which is in quotes if somebody wrote one that needs them.
pub(super) struct Word<'a>(pub(super) &'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, self.0)
    }
}

fn write_quoted(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '\'') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let found = tokens(line).unwrap();
        let texts: Vec<&str> = found.iter().map(|token| token.text.as_ref()).collect();
        assert_eq!(texts, expected, "{line}");
    }

    #[test]
    fn words_and_quotes() {
        check("", &[]);
        check("  -d 10.0.0.1\t-j DROP ", &["-d", "10.0.0.1", "-j", "DROP"]);
        check(r#"--comment "a b""#, &["--comment", "a b"]);
        check(r#"--comment "" x"#, &["--comment", "", "x"]);
        check(r#""a \"b\" \'c\' \\d ""#, &[r#"a "b" 'c' \d "#]);
        check(r#"a"b c" d"#, &["ab c", "d"]);
        check(r#""a"b"#, &["a", "b"]);
        check(r"a\b", &[r"a\b"]);
        for open in [r#""a"#, r#""a\"#, r#"a""#] {
            assert_eq!(tokens(open), Err(Reason::OpenQuote), "{open}");
        }
    }

    #[test]
    fn texts_are_quoted_like_libxtables_does() {
        for (text, expected) in [
            ("simple", "simple"),
            ("a/b:c", r#""a/b:c""#),
            ("", r#""""#),
            (r#"a "b" 'c' \d "#, r#""a \"b\" \'c\' \\d ""#),
        ] {
            let mut shown = String::new();
            write_text(&mut shown, text).unwrap();
            assert_eq!(shown, expected);
        }
    }
}
