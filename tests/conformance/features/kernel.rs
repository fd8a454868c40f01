//! What happens to the kernel and to the programs (5.4, 6.6).

use serde_json::json;

use super::Feature;
use super::objects::*;
use crate::stage::Op;

/// All of them.
pub(super) fn all() -> Vec<Feature> {
    vec![a_flushed_kernel_and_new_programs()]
}

fn a_flushed_kernel_and_new_programs() -> Feature {
    Feature::new("a flushed kernel and new programs").seen("a Service of every kind", [
                    endpoints(&[ready("10.4.1.1"), remote("10.4.2.1")]),
                    with_ingress(
                        json!({"externalTrafficPolicy": "Local", "loadBalancerSourceRanges": ["10.0.0.0/8"]}),
                    ),
                ])
.unseen("all tables are flushed", [Op::Flush])
.unseen("both programs start anew", [Op::RestartUpstream, Op::RestartOurs])
}
