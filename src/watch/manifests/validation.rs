//! Finds fields of objects that cannot be used, with error messages in the form of an API server.

mod problem;
mod schema;
mod values;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use problem::{
    FieldPath, FieldProblem, FieldProblemKind, FieldSegment, Problems, RENDER_FIRST,
    is_helm_template,
};

use crate::model::Kind;

/// Treatment of objects with fields that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// Does not use such objects, and reports them as errors.
    Strict,
    /// Uses every object that can be decoded, without its ignored fields, which are reported. The
    /// daemon always does.
    Lenient,
}

/// Returns the fields of an object that cannot be used. Nodes have none here: kubelets write them,
/// so only the types of their fields are checked, when they are decoded.
pub(super) fn problems(kind: Kind, object: &Value) -> Vec<FieldProblem> {
    let mut problems = Problems::default();
    match kind {
        Kind::Service => problems.check(object, values::check_service),
        Kind::EndpointSlice => problems.check(object, values::check_slice),
        Kind::Node => {}
    }
    problems.0
}

/// Returns the ignored fields of an object that was decoded: unknown ones, those of a wrong type
/// (the proxy does not read them, or it could not have decoded the object), and those without
/// effect because their value is unsupported. Other problems are diagnostics of
/// [`ingest`](crate::ingest).
pub(super) fn ignored_fields(kind: Kind, object: &Value) -> Vec<FieldProblem> {
    // `ingest` reports these, with the port or slice that is skipped because of them.
    let is_reported = |path: &FieldPath| {
        let last = path.0.last();
        matches!(last, Some(FieldSegment::Name(name)) if name == "protocol" || name == "addressType")
    };
    let mut problems = problems(kind, object);
    problems.retain(|problem| match problem.kind {
        FieldProblemKind::UnknownField | FieldProblemKind::WrongType => true,
        FieldProblemKind::UnsupportedValue => !is_reported(&problem.path),
        FieldProblemKind::InvalidValue => false,
    });
    problems
}

impl Problems {
    /// Adds values of wrong types and unknown fields, and then the problems of all other values.
    fn check<T: DeserializeOwned>(&mut self, object: &Value, validate: impl Fn(&T, &mut Self)) {
        let Some(decoded) = schema::decode(object, self) else {
            return;
        };
        let mut of_values = Self::default();
        validate(&decoded, &mut of_values);
        // A value of a wrong type was replaced by an empty one, and would be reported as missing.
        let is_replaced = |problem: &FieldProblem| {
            let mut wrong = self.0.iter().map(|wrong| &wrong.path.0);
            wrong.any(|path| problem.path.0.starts_with(path))
        };
        of_values.0.retain(|problem| !is_replaced(problem));
        self.0.extend(of_values.0);
    }
}
