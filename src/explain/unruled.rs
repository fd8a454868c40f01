//! Services that have no rules, and should not.
//!
//! Apart because nothing of them is in any rule: only the objects say what they are, and from rules
//! alone all that can be told is that there are such Services.

use std::fmt;

use crate::inspect::catalog::NoMatch;

/// A Service without rules of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unruled {
    /// Where it is.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Why it has none.
    pub why: WithoutRules,
}

/// Why a Service has no rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutRules {
    /// It has no address of its own.
    Headless,
    /// It is another name for a host.
    ExternalName,
}

/// What to say, and not only that no rule is about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// All there is to say of these.
    Because(Vec<Unruled>),
    /// Nobody knows the objects, so it may be one of these.
    Perhaps,
}

/// What to say of a name that fits nothing. `objects` are the Services without rules, if they are
/// known. `None`: the error says it all.
pub fn unanswered(error: &NoMatch, objects: Option<&[Unruled]>) -> Option<Unanswered> {
    let NoMatch::Service {
        pattern: asked,
        suggestions: similar,
    } = error
    else {
        return None;
    };
    let Some(objects) = objects else {
        // Where nothing is similar, the error says it, too.
        return (!similar.0.is_empty()).then_some(Unanswered::Perhaps);
    };
    let is_meant = |one: &&Unruled| {
        let wanted = asked.namespace.as_deref();
        *one.name == *asked.service && wanted.is_none_or(|wanted| wanted == &*one.namespace)
    };
    let meant: Vec<_> = objects.iter().filter(is_meant).cloned().collect();
    (!meant.is_empty()).then_some(Unanswered::Because(meant))
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Because(services) => {
                let lines: Vec<_> = services.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::Perhaps => {
                f.write_str("hint: a headless Service, or one of type ExternalName, has no rules")
            }
        }
    }
}

impl fmt::Display for Unruled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            WithoutRules::Headless => "is headless: DNS gives clients the endpoints",
            WithoutRules::ExternalName => "is an ExternalName: DNS gives clients a CNAME",
        };
        let Self {
            namespace, name, ..
        } = self;
        write!(f, "Service `{namespace}/{name}` has no rules, it {why}")
    }
}
