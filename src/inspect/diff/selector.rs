//! Changes of the Pods that a selector matches, by the templates in the same manifests.

use std::fmt;

use super::review::plural;

/// Service that gains or loses all of its Pods, although its selector may be the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectorChange {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// Number of Pod templates on the live side that the selector matches.
    pub before: usize,
    /// Number of Pod templates on the desired side that the selector matches.
    pub after: usize,
}

impl fmt::Display for SelectorChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace, service, ..
        } = self;
        let templates = |count| match count {
            0 => "no Pod template".to_owned(),
            count => plural(count, "Pod template", "Pod templates"),
        };
        let (before, after) = (templates(self.before), templates(self.after));
        let effect = if self.after == 0 {
            "the Service loses its endpoints"
        } else {
            "the Service gains endpoints"
        };
        write!(
            f,
            "Service {namespace}/{service}: spec.selector matches {before} -> {after}: {effect}"
        )
    }
}
