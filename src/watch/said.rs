//! Remembers which complaints about which objects were logged.
//!
//! Apart because every list repeats every object: without a memory, one odd Service would fill
//! the log at each reconnection.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::ingest::Diagnostic;
use crate::model::Kind;

/// What was said of which object, as hashes.
///
/// # Invariants
///
/// Holds only objects whose latest state has diagnostics, and at most [`MOST_OBJECTS`].
#[derive(Debug, Default)]
pub(super) struct Said {
    objects: HashMap<u64, Box<[u64]>>,
}

impl Said {
    /// Logs those of `diagnostics` that did not hold for the object's previous state.
    pub(super) fn log(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        diagnostics: Vec<Diagnostic>,
    ) {
        for diagnostic in self.news(kind, namespace, name, diagnostics) {
            tracing::warn!("{diagnostic}");
        }
    }

    /// Forgets an object that is gone: should it come back, it is a new one.
    pub(super) fn forget(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.objects.remove(&hash((kind, namespace, name)));
    }

    fn news(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        mut diagnostics: Vec<Diagnostic>,
    ) -> Vec<Diagnostic> {
        let object = hash((kind, namespace, name));
        if diagnostics.is_empty() {
            self.objects.remove(&object);
            return diagnostics;
        }
        // Starting afresh repeats some complaints; without a limit odd objects that come and go
        // between lists would stay for ever.
        if self.objects.len() >= MOST_OBJECTS && !self.objects.contains_key(&object) {
            self.objects.clear();
        }
        let current = diagnostics.iter().map(hash).collect();
        if let Some(before) = self.objects.insert(object, current) {
            diagnostics.retain(|diagnostic| !before.contains(&hash(diagnostic)));
        }
        diagnostics
    }
}

/// In objects: about half a megabyte, and more odd objects than anybody reads about.
const MOST_OBJECTS: usize = 8192;

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is logged of `shop/<name>` in a state with these problems.
    fn say(said: &mut Said, name: &str, problems: &[&str]) -> Vec<String> {
        let diagnostics = problems.iter().map(|&problem| Diagnostic {
            kind: Kind::Service,
            object: format!("shop/{name}"),
            field: "spec".into(),
            problem: problem.into(),
        });
        let news = said.news(Kind::Service, "shop", name, diagnostics.collect());
        news.into_iter().map(|one| one.problem).collect()
    }

    #[test]
    fn complaints_are_not_repeated_while_they_hold() {
        let mut said = Said::default();
        assert_eq!(say(&mut said, "a", &["x", "y"]), ["x", "y"]);
        assert!(say(&mut said, "a", &["x", "y"]).is_empty());
        assert_eq!(say(&mut said, "a", &["x", "z"]), ["z"]);
        assert_eq!(say(&mut said, "b", &["x"]), ["x"]);
        // Mended and broken again.
        assert!(say(&mut said, "a", &[]).is_empty());
        assert_eq!(say(&mut said, "a", &["x"]), ["x"]);
        said.forget(Kind::Service, "shop", "a");
        assert_eq!(say(&mut said, "a", &["x"]), ["x"]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut said = Said::default();
        for number in 0..3 * MOST_OBJECTS {
            say(&mut said, &number.to_string(), &["x"]);
        }
        assert!(said.objects.len() <= MOST_OBJECTS);
    }
}
