//! Objects of two sets of manifests, for the fields that no rule shows.

use crate::inspect::diff::{FieldReview, ObjectFields, ObjectKind, Review};
use crate::watch::manifests::{ManifestPair, ManifestRanges, RawObject, assumption_lines};

/// Objects of both sides, and the values that both lack. Empty if a side is not manifests.
#[derive(Default)]
pub(super) struct ComparedObjects {
    sides: [Vec<RawObject>; 2],
    assumptions: Vec<String>,
}

impl ComparedObjects {
    pub(super) fn of(pair: &ManifestPair, ranges: &ManifestRanges) -> Self {
        let assumed = [&pair.before, &pair.after].map(|side| side.assumptions.clone());
        Self {
            sides: pair.objects.clone(),
            assumptions: assumption_lines(&assumed.concat(), ranges),
        }
    }

    /// Compares the fields of Services and EndpointSlices.
    pub(super) fn review(&self, reviews: &[Review<'_>]) -> FieldReview {
        let [before, after] = &self.sides;
        FieldReview {
            assumptions: self.assumptions.clone(),
            ..FieldReview::of(&fields(before), &fields(after), reviews)
        }
    }
}

fn fields(objects: &[RawObject]) -> Vec<ObjectFields<'_>> {
    let of_kind = |object: &RawObject| {
        let mut kinds = ObjectKind::ALL.into_iter();
        kinds.find(|kind| kind.as_str() == object.kind)
    };
    let fields = objects.iter().filter_map(|object| {
        Some(ObjectFields {
            kind: of_kind(object)?,
            namespace: &object.namespace,
            name: &object.name,
            value: &object.value,
        })
    });
    fields.collect()
}
