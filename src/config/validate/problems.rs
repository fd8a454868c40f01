//! What is wrong with a configuration, collected.
//!
//! Apart because everybody who checks anything adds to one list: an operator wants to know it all
//! at once, in the words of where it was written, flag or field.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::fields::field;
use crate::config::kube_proxy::Unreadable;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A flag with its dashes, or a file and the path of a field in it.
    pub place: String,
    /// What is wrong, and what would be right, in one line.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// Everything that is wrong with flags and file. Nothing has been touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl Unusable {
    /// One flag is to blame.
    pub fn of_flag(flag: &str, problem: String) -> Self {
        let place = format!("--{flag}");
        Self {
            problems: vec![Problem { place, problem }],
        }
    }

    /// Nothing says where objects come from, and this is no Pod, which need not say it.
    pub fn without_source() -> Self {
        Self::of_flag(
            "kubeconfig",
            "nothing says where Services come from, and this is no Pod with a service account; \
             name a cluster with --kubeconfig FILE, or manifests with --manifests PATH"
                .to_owned(),
        )
    }
}

impl std::error::Error for Unusable {}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{problem}")?;
        }
        Ok(())
    }
}

/// A list under way.
#[derive(Debug, Default)]
pub(in crate::config) struct Problems {
    /// `None`: fields come from flags.
    file: Option<PathBuf>,
    found: Vec<Problem>,
}

impl Problems {
    /// Of the fields in a file, or of flags.
    pub(in crate::config) fn of(file: Option<&Path>) -> Self {
        Self {
            file: file.map(Path::to_owned),
            found: Vec::new(),
        }
    }

    /// Whether fields come from a file.
    pub(in crate::config) fn is_of_file(&self) -> bool {
        self.file.is_some()
    }

    /// Something is wrong with a field.
    pub(in crate::config) fn add(&mut self, path: &str, problem: impl Into<String>) {
        let place = match (&self.file, field(path).map(|field| field.flag)) {
            (Some(file), _) => format!("`{}`: {path}", file.display()),
            (None, Some("") | None) => path.to_owned(),
            (None, Some(flag)) => format!("--{flag}"),
        };
        let problem = problem.into();
        self.found.push(Problem { place, problem });
    }

    /// Something is wrong with a flag that no field stands for.
    pub(in crate::config) fn add_flag(&mut self, flag: &str, problem: impl Into<String>) {
        let (place, problem) = (format!("--{flag}"), problem.into());
        self.found.push(Problem { place, problem });
    }

    /// The file cannot be read at all.
    pub(in crate::config) fn add_file(&mut self, unreadable: Unreadable) {
        let file = self.file.as_deref().unwrap_or(Path::new("")).display();
        match unreadable {
            Unreadable::Text { line, reason } => {
                let line = line.map(|line| format!(", line {line}"));
                self.found.push(Problem {
                    place: format!("`{file}`{}", line.unwrap_or_default()),
                    problem: reason,
                });
            }
            Unreadable::Fields(fields) => {
                for (path, reason) in fields {
                    self.add(&path, reason);
                }
            }
        }
    }

    /// Something is wrong with a field, or it has this value.
    pub(in crate::config) fn keep<T>(&mut self, path: &str, of: Result<T, String>) -> Option<T> {
        of.map_err(|problem| self.add(path, problem)).ok()
    }

    /// A number within limits.
    pub(in crate::config) fn within(
        &mut self,
        path: &str,
        number: i32,
        limits: std::ops::RangeInclusive<i32>,
    ) -> bool {
        let is_within = limits.contains(&number);
        if !is_within {
            let (from, to) = limits.into_inner();
            let limits = if to == i32::MAX {
                format!("{from} or more")
            } else {
                format!("from {from} to {to}")
            };
            self.add(path, format!("{number} is not {limits}"));
        }
        is_within
    }

    /// `value`, unless there is a problem anywhere.
    pub(in crate::config) fn unless_any<T>(self, value: Option<T>) -> Result<T, Unusable> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => Err(Unusable {
                problems: self.found,
            }),
        }
    }
}
