//! Where a Service is reached: cluster IPs, external IPs, load balancers, source ranges (sections
//! 4.1, 5.6 and 5.7 of the upstream inventory).

use serde_json::{Value, json};

use super::objects::*;
use super::{Feature, steps};
use crate::conformance::releases::{OPEN_SOURCE_RANGE, SELECTOR_LABELS};

/// All of them.
pub(super) fn all() -> Vec<Feature> {
    vec![
        cluster_ip(),
        families(),
        no_cluster_ip(),
        labels_of_services(),
        external_ips(),
        load_balancer(),
        source_ranges(),
    ]
}

fn cluster_ip() -> Feature {
    steps! { "cluster IP":
        seen "without endpoints it is refused": web(json!({}));
        seen "with endpoints it is served": apply(here_and_there());
        seen "without endpoints again": delete(here_and_there());
    }
}

fn families() -> Feature {
    steps! { "families":
        unseen "endpoints of both":
            apply(here_and_there()), apply(slice("web-2", "web", "IPv6", &[ready("fd00:10:4::1")]));
        seen "dual stack, IPv6 first": web(of_families(&["IPv6", "IPv4"]));
        seen "IPv6 only": no_web(), web(of_families(&["IPv6"]));
        seen "IPv4 joins": web(of_families(&["IPv6", "IPv4"]));
    }
}

fn no_cluster_ip() -> Feature {
    steps! { "no cluster IP":
        unseen "a headless Service has no rules":
            apply(here_and_there()), web(json!({"clusterIP": "None"}));
        unseen "an ExternalName has none":
            no_web(), web(json!({"type": "ExternalName", "externalName": "e.example"}));
        seen "it becomes a ClusterIP": web(json!({"type": "ClusterIP"}));
    }
}

fn labels_of_services() -> Feature {
    let of_another_proxy = || {
        let label = "service.kubernetes.io/service-proxy-name";
        apply(labelled(service("web", json!({})), label))
    };
    steps! { "labels of Services":
        unseen "another proxy's Service has no rules": apply(here_and_there()), of_another_proxy();
        seen "it becomes ours": web(json!({}));
        seen "and another's again": of_another_proxy();
        seen "the label for headless slices says nothing on a Service" differs SELECTOR_LABELS:
            apply(labelled(service("web", json!({})), "service.kubernetes.io/headless"));
    }
}

fn external_ips() -> Feature {
    steps! { "external IPs":
        seen "refused without endpoints":
            web(json!({"externalIPs": ["198.51.100.1", "198.51.100.2"]}));
        seen "served": apply(here_and_there());
        seen "one goes": web(json!({"externalIPs": ["198.51.100.2"]}));
        unseen "the other family's are ignored":
            web(json!({"externalIPs": ["198.51.100.2", "2001:db8::1"]}));
        seen "an order of their own": web(json!({"externalIPs": ["198.51.100.7", "198.51.100.2"]}));
    }
}

fn load_balancer() -> Feature {
    let ingress = |entries: Value| balanced_at(&entries, json!({}));
    steps! { "load balancer":
        seen "waits for its address": apply(here_and_there()), web(balanced(json!({})));
        seen "gets one": ingress(json!([{"ip": "203.0.113.1"}]));
        seen "a second one, and a host name":
            ingress(json!([
                {"ip": "203.0.113.1"},
                {"ip": "203.0.113.2", "ipMode": "VIP"},
                {"hostname": "lb.example"},
            ]));
        seen "the first is a proxy's now":
            ingress(json!([
                {"ip": "203.0.113.1", "ipMode": "Proxy"},
                {"ip": "203.0.113.2", "ipMode": "VIP"},
            ]));
        seen "no endpoints": delete(here_and_there());
        seen "endpoints": apply(here_and_there());
        seen "no node ports":
            no_web(), web(balanced(json!({"allocateLoadBalancerNodePorts": false})));
    }
}

fn source_ranges() -> Feature {
    let balanced_for = |ranges: &[&str]| with_ingress(json!({"loadBalancerSourceRanges": ranges}));
    steps! { "source ranges":
        seen "two":
            apply(here_and_there()),
            web(balanced(json!({"loadBalancerSourceRanges": ["203.0.113.0/24", "10.0.0.0/8"]}))),
            balanced_for(&["203.0.113.0/24", "10.0.0.0/8"]);
        seen "in another order": balanced_for(&["10.0.0.0/8", "203.0.113.0/24"]);
        seen "with this node's own address": balanced_for(&["192.0.2.0/24"]);
        seen "of the other family only: no restriction": balanced_for(&["fd00::/8"]);
        unseen "all addresses: no restriction either" differs OPEN_SOURCE_RANGE:
            balanced_for(&["0.0.0.0/0", "10.0.0.0/8"]);
        seen "an external IP that is also the load balancer's address":
            with_ingress(json!({
                "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalIPs": ["203.0.113.9"],
            }));
    }
}
