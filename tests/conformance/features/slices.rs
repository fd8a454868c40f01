//! What slices hold, and how several make one list (4.3).

use serde_json::json;

use super::objects::*;
use super::{Feature, steps};
use crate::conformance::releases::{DUPLICATE_ENDPOINT, SELECTOR_LABELS};

/// All of them.
pub(super) fn all() -> Vec<Feature> {
    vec![
        order(),
        several_slices(),
        what_slices_may_hold(),
        another_port_number_behind_the_same_name(),
    ]
}

fn order() -> Feature {
    let web = || web(json!({}));
    steps! { "order":
        seen "by the text of the address":
            endpoints(&[ready("10.4.1.5"), ready("10.4.1.10"), ready("10.4.1.100")]), web();
        unseen "whatever order the slice has":
            endpoints(&[ready("10.4.1.100"), ready("10.4.1.10"), ready("10.4.1.5")]);
    }
}

fn several_slices() -> Feature {
    let web = || web(json!({}));
    steps! { "several slices":
        unseen "slices first":
            endpoints(&[ready("10.4.1.1")]), more_endpoints(&[ready("10.4.1.2")]);
        seen "then the Service": web();
        unseen "an endpoint in both": more_endpoints(&[ready("10.4.1.2"), ready("10.4.1.1")]);
        unseen "it terminates in one of them" differs DUPLICATE_ENDPOINT:
            more_endpoints(&[
                ready("10.4.1.2"),
                conditions_of(
                    "10.4.1.1",
                    json!({"ready": false, "serving": true, "terminating": true}),
                ),
            ]);
        seen "the other one goes": delete(slice("web-1", "web", "IPv4", &[]));
        seen "an endpoint moves to another slice":
            endpoints(&[ready("10.4.1.1")]), more_endpoints(&[ready("10.4.1.2")]);
    }
}

fn what_slices_may_hold() -> Feature {
    let web = || web(json!({}));
    let one = || slice("web-1", "web", "IPv4", &[ready("10.4.1.1")]);
    let alien = || {
        let mut object = slice("web-3", "web", "IPv4", &[ready("10.4.1.9")]);
        object["metadata"]["labels"] = json!({"app": "web"});
        object
    };
    let fqdn = || {
        let mut object = slice("web-4", "web", "FQDN", &[]);
        object["endpoints"] = json!([{"addresses": ["web.example"]}]);
        object
    };
    steps! { "what slices may hold":
        seen "a Service": web();
        unseen "no Service's slice": apply(alien());
        unseen "names instead of addresses": apply(fqdn());
        unseen "no endpoints": endpoints(&[]);
        unseen "endpoints without ports": apply(with_ports(one(), json!([])));
        unseen "a port without a number": apply(with_ports(one(), json!([{"name": "http"}])));
        seen "two addresses, of which the first counts":
            endpoints(&[json!({"addresses": ["10.4.1.1", "10.4.1.2"]})]);
        seen "a headless Service's label": apply(labelled(one(), "service.kubernetes.io/headless"));
        seen "the label for Services of other proxies says nothing on a slice"
            differs SELECTOR_LABELS:
            apply(labelled(one(), "service.kubernetes.io/service-proxy-name"));
    }
}

fn another_port_number_behind_the_same_name() -> Feature {
    let web = || web(json!({}));
    steps! { "another port number behind the same name":
        seen "80": web(), endpoints(&[ready("10.4.1.1")]);
        seen "81 in a second slice":
            apply(with_ports(
                slice("web-2", "web", "IPv4", &[ready("10.4.1.1")]),
                json!([{"name": "http", "port": 81}]),
            ));
    }
}
