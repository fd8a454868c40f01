//! Conditions of endpoints, and what serves when no endpoint is ready (4.5).

use serde_json::{Value, json};

use super::objects::*;
use super::{Feature, steps};
use crate::conformance::stage::Op;

/// All of them.
pub(super) fn all() -> Vec<Feature> {
    vec![conditions(), conditions_under_policy_local()]
}

/// An endpoint on this node with these conditions, beside one on another node.
fn one(conditions: Value) -> Op {
    endpoints(&[conditions_of("10.4.1.1", conditions), remote("10.4.2.1")])
}

/// The only endpoint, on this node, with these conditions.
fn alone(conditions: Value) -> Op {
    endpoints(&[conditions_of("10.4.1.1", conditions)])
}

/// Conditions of an endpoint that ends and still serves.
fn ending() -> Value {
    json!({"ready": false, "serving": true, "terminating": true})
}

fn conditions() -> Feature {
    steps! { "conditions":
        seen "none means ready": web(json!({})), alone(json!({}));
        seen "not ready": alone(json!({"ready": false}));
        seen "terminating and serving: better than nothing": alone(ending());
        seen "terminating and not serving":
            alone(json!({"ready": false, "serving": false, "terminating": true}));
        seen "ready wins over terminating": alone(json!({"ready": true, "terminating": true}));
        seen "another is ready": one(ending());
    }
}

fn conditions_under_policy_local() -> Feature {
    let external = || web(json!({"type": "NodePort", "externalTrafficPolicy": "Local"}));
    steps! { "conditions under policy Local":
        seen "ready": external(), one(json!({"ready": true}));
        seen "terminating here, ready elsewhere": one(ending());
        seen "gone here, ready elsewhere": one(json!({"ready": false, "serving": false}));
        seen "terminating here, no other": alone(ending());
    }
}
