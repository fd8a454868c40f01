//! Recognizes Helm templates that were not rendered.

/// Hint for a Helm template.
pub(super) const RENDER_FIRST: &str = "render it first with `helm template`";

/// Reports whether a text has an expression of a Helm template.
pub(super) fn is_helm_template(text: &str) -> bool {
    text.contains("{{") && text.contains("}}")
}
