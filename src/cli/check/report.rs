//! Results of `check`: groups of checks, as text with a mark per line, and as JSON.

use std::fmt::{Display, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::cli::terminal::escaped;
use crate::inspect::API_VERSION;
use crate::telemetry;

/// Pages that several groups refer to.
pub(super) const NODE_SETUP: &str = "deploy/docs/node-setup.md";
pub(super) const NO_ANSWER: &str = "deploy/docs/no-answer.md";
pub(super) const REPLACE: &str = "deploy/docs/replace.md";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckStatus {
    /// As it has to be.
    Ok,
    /// Could not be examined here.
    Skipped,
    /// Works, and may get in the way.
    Warning,
    /// The daemon, or a part of its rules, would not work.
    Failed,
}

impl CheckStatus {
    const ALL: [Self; 4] = [Self::Failed, Self::Warning, Self::Ok, Self::Skipped];

    /// Returns the mark at the beginning of a line: a word, which can be searched for and read out.
    const fn mark(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skip",
            Self::Warning => "WARN",
            Self::Failed => "FAIL",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Ok => AnsiColor::Green.on_default(),
            Self::Skipped => Style::new().dimmed(),
            Self::Warning => AnsiColor::Yellow.on_default().bold(),
            Self::Failed => AnsiColor::Red.on_default().bold(),
        }
    }

    /// Returns the count of checks with this status, as text.
    fn counted(self, count: usize) -> String {
        match (self, count) {
            (Self::Ok, _) => format!("{count} ok"),
            (Self::Skipped, _) => format!("{count} skipped"),
            (Self::Warning, 1) => "1 warning".to_owned(),
            (Self::Warning, _) => format!("{count} warnings"),
            (Self::Failed, _) => format!("{count} failed"),
        }
    }
}

/// One thing that was examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CheckResult {
    status: CheckStatus,
    /// Sentence about what was found.
    found: String,
    /// Next step; empty if none is needed.
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
    /// Page of the documentation; empty if none is needed.
    #[serde(skip_serializing_if = "str::is_empty")]
    page: &'static str,
}

impl CheckResult {
    pub(super) fn ok(found: impl Into<String>) -> Self {
        Self::new(CheckStatus::Ok, found.into(), "", "")
    }

    pub(super) fn skipped(found: impl Into<String>, hint: &str) -> Self {
        Self::new(CheckStatus::Skipped, found.into(), hint, "")
    }

    pub(super) fn warning(found: impl Into<String>, hint: &str, page: &'static str) -> Self {
        Self::new(CheckStatus::Warning, found.into(), hint, page)
    }

    pub(super) fn failed(found: impl Into<String>, hint: &str, page: &'static str) -> Self {
        Self::new(CheckStatus::Failed, found.into(), hint, page)
    }

    #[cfg(test)]
    pub(super) fn is_ok(&self) -> bool {
        self.status == CheckStatus::Ok
    }

    /// Returns the failure that an error is, with its own hint if it has one.
    pub(super) fn error(error: &dyn Display, page: &'static str) -> Self {
        let text = error.to_string();
        let (found, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        Self::failed(found.replace('\n', " "), &hint.replace('\n', " "), page)
    }

    fn new(status: CheckStatus, found: String, hint: &str, page: &'static str) -> Self {
        Self {
            status,
            found,
            hint: hint.to_owned(),
            page,
        }
    }
}

/// Checks about one part of the node or the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CheckGroup {
    name: &'static str,
    checks: Vec<CheckResult>,
}

impl CheckGroup {
    pub(super) const fn new(name: &'static str, checks: Vec<CheckResult>) -> Self {
        Self { name, checks }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "{}", self.name)?;
        for check in &self.checks {
            let (mark, style) = (check.status.mark(), check.status.style());
            // A line end in a text may not forge a result.
            let found = telemetry::escaped(&check.found);
            writeln!(text, "  {style}{mark:<4}{style:#} {found}")?;
            if !check.hint.is_empty() {
                writeln!(text, "       hint: {}", telemetry::escaped(&check.hint))?;
            }
            if !check.page.is_empty() {
                writeln!(text, "       see: {}", check.page)?;
            }
        }
        writeln!(text)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckReport {
    api_version: &'static str,
    groups: Vec<CheckGroup>,
}

impl CheckReport {
    pub(super) const fn new(groups: Vec<CheckGroup>) -> Self {
        Self {
            api_version: API_VERSION,
            groups,
        }
    }

    /// Reports whether nothing failed; warnings pass.
    pub(super) fn is_passed(&self) -> bool {
        self.count(CheckStatus::Failed) == 0
    }

    fn count(&self, status: CheckStatus) -> usize {
        let checks = self.groups.iter().flat_map(|group| &group.checks);
        checks.filter(|check| check.status == status).count()
    }

    pub(super) fn json(&self) -> String {
        // Strings, lists and a fixed set of keys can always be written.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{}\n", escaped(&text))
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for group in &self.groups {
            // Writing to a String cannot fail.
            let _ = group.write(&mut text);
        }
        let counts = CheckStatus::ALL.map(|status| (status, self.count(status)));
        let counted = counts.into_iter().filter(|(_, count)| *count > 0);
        let counted: Vec<String> = counted
            .map(|(status, count)| status.counted(count))
            .collect();
        let _ = writeln!(text, "{}", counted.join(", "));
        text
    }
}

#[cfg(test)]
#[path = "tests/report.rs"]
mod tests;
