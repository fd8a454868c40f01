//! Validation of objects, with the errors of an API server that rejects them.

mod problem;
mod schema;
mod service;
mod slice;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use problem::{FieldPath, FieldProblem, FieldProblemKind, FieldSegment, Problems};

use super::pools::NodePortRange;
use crate::model::Kind;

/// Checks of objects while they are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum ObjectChecks {
    /// Objects that an API server with this range of node ports would reject are not used.
    Strict(NodePortRange),
    /// As much of them as possible is used; ignored fields are returned.
    Lenient,
}

/// Returns the problems for which an API server would reject an object. Kubelets write Nodes, so
/// that only their types matter, which decoding checks.
pub(super) fn problems(kind: Kind, object: &Value, node_ports: NodePortRange) -> Vec<FieldProblem> {
    let mut problems = Problems::default();
    match kind {
        Kind::Service => problems.check(object, |service, problems| {
            service::validate(service, node_ports, problems);
        }),
        Kind::EndpointSlice => problems.check(object, slice::validate),
        Kind::Node => {}
    }
    problems.0
}

/// Returns the fields of an object that have no effect: they are unknown, of a wrong type or
/// without a supported value. The diagnostics of [`ingest`](crate::ingest) name all other problems.
pub(super) fn ignored_fields(kind: Kind, object: &Value) -> Vec<FieldProblem> {
    // Ingest reports these, with the part of the object that is skipped.
    let is_reported = |path: &FieldPath| {
        let last = path.0.last();
        matches!(last, Some(FieldSegment::Name(name)) if name == "protocol" || name == "addressType")
    };
    let mut problems = problems(kind, object, NodePortRange::DEFAULT);
    problems.retain(|problem| match problem.kind {
        FieldProblemKind::UnknownField | FieldProblemKind::WrongType => true,
        FieldProblemKind::UnsupportedValue => !is_reported(&problem.path),
        FieldProblemKind::InvalidValue => false,
    });
    problems
}

impl Problems {
    /// Adds problems of the types of fields, and of the values of all others.
    fn check<T: DeserializeOwned>(&mut self, object: &Value, validate: impl Fn(&T, &mut Self)) {
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
