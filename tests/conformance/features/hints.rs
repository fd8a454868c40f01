//! Topology hints (4.5). The Node is in zone-a.

use serde_json::{Value, json};

use super::objects::*;
use super::{Feature, steps};
use crate::conformance::releases::NODE_HINTS;
use crate::conformance::stage::Op;
use crate::support::objects::NODE;

/// All of them.
pub(super) fn all() -> Vec<Feature> {
    vec![zone_hints(), node_hints(), hints_and_policy_local()]
}

fn zone_hints() -> Feature {
    let zone = |name: &str| json!({"forZones": [{"name": name}]});
    steps! { "zone hints":
        seen "one for this zone": web(json!({})), both(zone("zone-a"), zone("zone-b"));
        seen "the Node moves": Op::Zone(Some("zone-b"));
        seen "the Node moves to a zone without endpoints": Op::Zone(Some("zone-z"));
        unseen "the Node has no zone": Op::Zone(None);
        seen "back": Op::Zone(Some("zone-a"));
        seen "one endpoint without a hint": both(zone("zone-a"), json!({}));
    }
}

fn node_hints() -> Feature {
    let node = |name: &str| json!({"forNodes": [{"name": name}]});
    steps! { "node hints":
        seen "one for this node" differs NODE_HINTS:
            web(json!({})), both(node(NODE), node("node2"));
        seen "for other nodes only": both(node("node3"), node("node2"));
        seen "they come before zone hints" differs NODE_HINTS:
            both(
                json!({"forNodes": [{"name": "node2"}], "forZones": [{"name": "zone-a"}]}),
                json!({"forNodes": [{"name": NODE}], "forZones": [{"name": "zone-b"}]}),
            );
        seen "zone hints if no node hint is for us":
            both(
                json!({"forNodes": [{"name": "node2"}], "forZones": [{"name": "zone-a"}]}),
                json!({"forNodes": [{"name": "node3"}], "forZones": [{"name": "zone-b"}]}),
            );
    }
}

fn hints_and_policy_local() -> Feature {
    let zone = |name: &str| json!({"forZones": [{"name": name}]});
    steps! { "hints and policy Local":
        seen "topology says nothing about local traffic":
            web(json!({"type": "NodePort", "externalTrafficPolicy": "Local"})),
            both(zone("zone-a"), zone("zone-b"));
    }
}

/// Two endpoints on this node, each with its hints.
fn both(first: Value, second: Value) -> Op {
    let hinted = |address: &str, hints: Value| {
        let mut endpoint = ready(address);
        endpoint["hints"] = hints;
        endpoint
    };
    endpoints(&[hinted("10.4.1.1", first), hinted("10.4.1.2", second)])
}
