//! Validation of objects, with the errors of an API server that rejects them.

mod problem;
mod schema;
mod service;
mod slice;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use problem::{FieldPath, FieldProblem, FieldSegment, Problems};

use crate::model::Kind;

/// Returns the problems for which an API server would reject an object. Kubelets write Nodes, so
/// that only their types matter, which decoding checks.
pub(super) fn problems(kind: Kind, object: &Value) -> Vec<FieldProblem> {
    let mut problems = Problems::default();
    match kind {
        Kind::Service => problems.check(object, service::validate),
        Kind::EndpointSlice => problems.check(object, slice::validate),
        Kind::Node => {}
    }
    problems.0
}

impl Problems {
    /// Adds problems of the types of fields, and of the values of all others.
    fn check<T: DeserializeOwned>(&mut self, object: &Value, validate: fn(&T, &mut Self)) {
        let Some(decoded) = schema::decode(object, self) else {
            return;
        };
        let mut of_values = Self::default();
        validate(&decoded, &mut of_values);
        // A value of a wrong type was removed, and would be reported again as missing.
        let is_removed = |value: &FieldProblem| {
            let mut typed = self.0.iter().map(|typed| &typed.path.0);
            typed.any(|typed| value.path.0.starts_with(typed))
        };
        of_values.0.retain(|value| !is_removed(value));
        self.0.extend(of_values.0);
    }
}
