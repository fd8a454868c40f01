//! What happens to the kernel and to the programs (5.4, 6.6).

use serde_json::json;

use super::objects::{endpoints, ready, remote, with_ingress};
use super::{Feature, steps};
use crate::conformance::stage::Op;

/// All of them.
pub(super) fn all() -> Vec<Feature> {
    let balanced = json!({
        "externalTrafficPolicy": "Local",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
    });
    let both = [ready("10.4.1.1"), remote("10.4.2.1")];
    vec![steps! { "a flushed kernel and new programs":
        seen "a Service of every kind": endpoints(&both), with_ingress(balanced);
        unseen "all tables are flushed": Op::Flush;
        unseen "both programs start anew": Op::RestartUpstream, Op::RestartOurs;
        unseen "each takes over from the other": Op::Exchange;
        seen "and goes on from there": endpoints(&both[..1]);
        unseen "and back": Op::Exchange;
    }]
}
