//! Ports of a Service, affinity, and changes that come to nothing (4.1, 4.2).

use serde_json::json;

use super::objects::*;
use super::{Feature, steps};

/// All of them.
pub(super) fn all() -> Vec<Feature> {
    vec![
        ports(),
        node_ports(),
        session_affinity(),
        changes_that_cancel_each_other(),
    ]
}

fn ports() -> Feature {
    let two = json!({"ports": [
        {"name": "dns", "protocol": "UDP", "port": 53},
        {"name": "dns-tcp", "protocol": "TCP", "port": 53},
    ]});
    let slice_of_two = || {
        let mut object = slice("web-1", "web", "IPv4", &[ready("10.4.1.1")]);
        object["ports"] = json!([
            {"name": "dns", "protocol": "UDP", "port": 5353},
            {"name": "dns-tcp", "protocol": "TCP", "port": 5354},
            {"name": "unused", "protocol": "TCP", "port": 1},
        ]);
        object
    };
    steps! { "ports":
        seen "one number over two protocols": apply(slice_of_two()), web(two.clone());
        seen "one port goes":
            web(json!({"ports": [{"name": "dns", "protocol": "UDP", "port": 53}]}));
        seen "it gets another number":
            web(json!({"ports": [{"name": "dns", "protocol": "UDP", "port": 54}]}));
        seen "and another name, which no slice has":
            web(json!({"ports": [{"name": "other", "protocol": "UDP", "port": 54}]}));
        seen "SCTP":
            web(json!({"ports": [{"name": "s", "protocol": "SCTP", "port": 9}]})),
            apply(with_ports(
                slice_of_two(),
                json!([{"name": "s", "protocol": "SCTP", "port": 10}]),
            ));
        unseen "a target port says nothing":
            web(json!({"ports": [{"name": "s", "protocol": "SCTP", "port": 9, "targetPort": 99}]}));
    }
}

fn node_ports() -> Feature {
    steps! { "node ports":
        seen "refused without endpoints": web(node_port(30_080));
        seen "served": endpoints(&[ready("10.4.1.1")]);
        seen "another number": web(node_port(30_081));
        seen "no node port any more": web(json!({"type": "ClusterIP"}));
    }
}

fn session_affinity() -> Feature {
    steps! { "session affinity":
        seen "three hours":
            endpoints(&[ready("10.4.1.1"), ready("10.4.1.2")]),
            web(json!({"sessionAffinity": "ClientIP"}));
        seen "a minute":
            web(json!({
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            }));
        seen "one endpoint": endpoints(&[ready("10.4.1.2")]);
        seen "none": web(json!({}));
    }
}

fn changes_that_cancel_each_other() -> Feature {
    steps! { "changes that cancel each other":
        seen "a Service and its endpoints": endpoints(&[ready("10.4.1.1")]), web(json!({}));
        unseen "there and back":
            web(json!({"sessionAffinity": "ClientIP"})),
            web(json!({})),
            delete(slice("web-1", "web", "IPv4", &[])),
            endpoints(&[ready("10.4.1.1")]);
    }
}
