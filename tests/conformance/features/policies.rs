//! Traffic policies (4.1, 4.5, 5.7).

use serde_json::json;

use super::objects::*;
use super::{Feature, steps};

/// All of them.
pub(super) fn all() -> Vec<Feature> {
    vec![
        internal_traffic_policy(),
        external_traffic_policy(),
        external_policy_of_a_nodeport_and_of_external_ips(),
        health_check_node_port_of_two_ports(),
    ]
}

fn internal_traffic_policy() -> Feature {
    steps! { "internal traffic policy":
        seen "a local endpoint": apply(here_and_there()), web(local_inside(json!({})));
        seen "none on this node": apply(there());
        seen "none at all": delete(there());
        seen "any endpoint will do": apply(there()), web(json!({}));
    }
}

fn external_traffic_policy() -> Feature {
    let external = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32_100,
        "externalIPs": ["198.51.100.1"],
    });
    steps! { "external traffic policy":
        seen "a local endpoint": apply(here_and_there()), web(external.clone());
        seen "none on this node": apply(there());
        seen "none at all": delete(there());
        seen "with internal policy Local":
            apply(here_and_there()), web(local_inside(external.clone()));
        seen "none on this node for both": apply(there());
        seen "policy Cluster": web(json!({"type": "LoadBalancer"}));
    }
}

fn external_policy_of_a_nodeport_and_of_external_ips() -> Feature {
    steps! { "external policy of a NodePort and of external IPs":
        seen "NodePort":
            apply(here_and_there()),
            web(json!({"type": "NodePort", "externalTrafficPolicy": "Local"}));
        seen "external IP of a ClusterIP":
            no_web(),
            web(json!({"externalIPs": ["198.51.100.1"], "externalTrafficPolicy": "Local"}));
    }
}

fn health_check_node_port_of_two_ports() -> Feature {
    steps! { "health check node port of two ports":
        seen "one rule for each":
            apply(here_and_there()),
            web(json!({
                "type": "LoadBalancer",
                "externalTrafficPolicy": "Local",
                "healthCheckNodePort": 32_101,
                "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
            }));
    }
}
