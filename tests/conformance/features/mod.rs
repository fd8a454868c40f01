//! What kube-proxy can do, feature by feature, each as a short history.
//!
//! Random histories meet most of this sooner or later. Here each feature is compared by itself, and
//! a step that was to change rules and did not fails the test.

mod addresses;
mod conditions;
mod hints;
mod kernel;
pub mod objects;
mod policies;
mod ports;
mod slices;

use crate::conformance::releases::{Release, ReleaseDifference};
use crate::conformance::stage::Op;

/// The namespace all features live in.
pub const NAMESPACE: &str = "features";

/// Whether kube-proxy's rules have to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// In some variant and family.
    Seen,
    /// In none.
    Unseen,
}

/// One step of a feature: what it does in words, and what is done.
pub struct FeatureStep {
    /// For reports.
    pub name: &'static str,
    /// What has to come of it.
    pub sight: Sight,
    /// One after the other.
    pub ops: Vec<Op>,
    /// Rules of older releases of kube-proxy differ in this way after it.
    pub difference: Option<&'static ReleaseDifference>,
}

/// A feature. When it is over, its objects are deleted.
pub struct Feature {
    /// For reports.
    pub name: &'static str,
    /// In their order.
    pub steps: Vec<FeatureStep>,
}

impl Feature {
    fn new(name: &'static str) -> Self {
        let steps = Vec::new();
        Self { name, steps }
    }

    fn seen<const N: usize>(self, name: &'static str, ops: [Op; N]) -> Self {
        self.step(name, Sight::Seen, ops.into())
    }

    fn unseen<const N: usize>(self, name: &'static str, ops: [Op; N]) -> Self {
        self.step(name, Sight::Unseen, ops.into())
    }

    fn step(mut self, name: &'static str, sight: Sight, ops: Vec<Op>) -> Self {
        self.steps.push(FeatureStep {
            name,
            sight,
            ops,
            difference: None,
        });
        self
    }

    /// Rules of older releases of kube-proxy differ after the last step.
    fn differs(mut self, difference: &'static ReleaseDifference) -> Self {
        self.steps.last_mut().unwrap().difference = Some(difference);
        self
    }

    /// Reports whether one of its steps differs in a release.
    pub fn differs_in(&self, release: &Release) -> bool {
        let mut differences = self.steps.iter().filter_map(|step| step.difference);
        differences.any(|difference| release.has(difference))
    }

    /// Deletes what its steps have made.
    pub fn end(&self) -> Vec<Op> {
        let ops = self.steps.iter().flat_map(|step| &step.ops);
        let deletion = |op: &Op| match op {
            Op::Apply(object) => Some(Op::Delete(object.clone())),
            _ => None,
        };
        ops.filter_map(deletion).collect()
    }
}

/// Makes a feature of its name and its steps, each `SIGHT NAME differs X: OPERATIONS`: whether
/// kube-proxy's rules change (`seen` or `unseen`), and how those of older releases differ.
macro_rules! steps {
    ($name:literal: $(
        $sight:ident $step:literal $(differs $difference:ident)?: $($op:expr),+;
    )+) => {
        Feature::new($name)$(.$sight($step, [$($op),+])$(.differs(&$difference))?)+
    };
}
pub(crate) use steps;

/// All of them.
pub fn features() -> Vec<Feature> {
    [
        addresses::all(),
        ports::all(),
        policies::all(),
        slices::all(),
        conditions::all(),
        hints::all(),
        kernel::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
