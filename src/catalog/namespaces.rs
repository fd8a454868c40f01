//! A namespace that no service port is in.
//!
//! Apart from [names](super::missing) because it is asked for without any: nothing would be shown,
//! which says nothing of a typo.

use std::collections::BTreeSet;
use std::fmt;

use super::port::PortName;
use super::similar;

/// No Service of the namespace has rules, though others have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoNamespace {
    asked: Box<str>,
    /// Those that look like it, or else all.
    instead: BTreeSet<Box<str>>,
}

/// More would not be read.
const MOST: usize = 5;

impl NoNamespace {
    /// Nothing, if one of those that there are is in the namespace; nor if there are none at all.
    pub(super) fn of<'c>(asked: &str, known: impl Iterator<Item = &'c PortName>) -> Option<Self> {
        let all: BTreeSet<&str> = known.map(PortName::namespace).collect();
        if all.is_empty() || all.contains(asked) {
            return None;
        }
        let near = all.iter().filter(|known| similar::is_near(known, asked));
        let near: BTreeSet<Box<str>> = near.map(|known| Box::from(*known)).collect();
        let instead = if near.is_empty() {
            all.into_iter().map(Box::from).collect()
        } else {
            near
        };
        let asked = asked.into();
        Some(Self { asked, instead })
    }
}

impl fmt::Display for NoNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no Service of namespace `{}` has rules", self.asked)?;
        let names = self.instead.iter().take(MOST);
        let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
        let more = if self.instead.len() > MOST {
            ", ..."
        } else {
            ""
        };
        match names.as_slice() {
            [only] => write!(f, "\nhint: is {only} meant?"),
            names => write!(f, "\nhint: is one of {}{more} meant?", names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(asked: &str, known: &[&str], expected: Option<&str>) {
        let known = known.iter().map(|name| PortName {
            name: (*name).into(),
            protocol: "tcp".into(),
        });
        let known: Vec<PortName> = known.collect();
        let found = NoNamespace::of(asked, known.iter());
        let said = found.map(|found| found.to_string());
        let prefix = format!("no Service of namespace `{asked}` has rules\nhint: is ");
        assert_eq!(said, expected.map(|hint| format!("{prefix}{hint} meant?")));
    }

    #[test]
    fn one_that_is_not_there_is_told_with_those_that_are() {
        check("shop", &["shop/web"], None);
        check("shop", &[], None);
        check("shpo", &["bank/x", "shop/web", "shop/b"], Some("`shop`"));
        check("zoo", &["bank/x", "shop/b"], Some("one of `bank`, `shop`"));
        check("zoo", &["bank/x"], Some("`bank`"));
        let many = ["u/x", "v/x", "w/x", "x/x", "y/x", "z/x"];
        check("prod", &many, Some("one of `u`, `v`, `w`, `x`, `y`, ..."));
    }
}
