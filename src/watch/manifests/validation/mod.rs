//! Validates objects as an API server does, with its error messages.

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
    /// Objects are used without their ignored fields, which are reported.
    Lenient,
}

/// Returns the problems for which an API server would reject an object. Nodes have none here:
/// kubelets write them, so only the types of their fields are checked, when they are decoded.
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

/// Returns the ignored fields of an object that was decoded: unknown ones, those of a wrong type,
/// which the proxy does not read, and those with an unsupported value. Other problems are
/// diagnostics of [`ingest`](crate::ingest).
pub(super) fn ignored_fields(kind: Kind, object: &Value) -> Vec<FieldProblem> {
    // `ingest` reports these, with the port or slice that is skipped because of them.
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
    /// Adds unknown fields and values of wrong types, and then the problems of all other values.
    fn check<T: DeserializeOwned>(&mut self, object: &Value, validate: impl Fn(&T, &mut Self)) {
        let Some(decoded) = schema::decode(object, self) else {
            return;
        };
        let mut of_values = Self::default();
        validate(&decoded, &mut of_values);
        // A value of a wrong type was replaced by an empty one, and would be reported as missing.
        let is_replaced = |value: &FieldProblem| {
            let mut typed = self.0.iter().map(|typed| &typed.path.0);
            typed.any(|typed| value.path.0.starts_with(typed))
        };
        of_values.0.retain(|value| !is_replaced(value));
        self.0.extend(of_values.0);
    }
}
