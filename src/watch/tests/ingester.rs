//! Changes that the ingester sends to each family.

use serde_json::{Value, json};

use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::{Change, Kind};
use crate::net::PerFamily;
use crate::watch::{ChangeReceivers, Ingester, SourceEvent, change_channels};

/// Ingester whose changes are taken after each observation.
pub(super) struct Collected {
    ingester: Ingester,
    receivers: ChangeReceivers,
    words: PerFamily<Vec<String>>,
}

impl Collected {
    pub(super) fn new() -> Self {
        let (senders, receivers) = change_channels(None);
        Self {
            ingester: Ingester::new(senders, "here".into()),
            receivers,
            words: PerFamily::default(),
        }
    }

    /// Lets the ingester observe something; returns the changes of IPv4.
    pub(super) fn observe(&mut self, observe: impl FnOnce(&mut Ingester)) -> Vec<Change> {
        observe(&mut self.ingester);
        let families = &mut self.receivers.families;
        let (v4, v6) = (families.v4.take(), families.v6.take());
        self.words.v4.extend(v4.iter().map(word));
        self.words.v6.extend(v6.iter().map(word));
        v4
    }

    fn service(&mut self, observed: SourceEvent<ServiceObject>) {
        self.observe(|ingester| ingester.service(observed));
    }

    fn endpoint_slice(&mut self, observed: SourceEvent<EndpointSliceObject>) {
        self.observe(|ingester| ingester.endpoint_slice(observed));
    }

    fn node(&mut self, observed: SourceEvent<NodeObject>) {
        self.observe(|ingester| ingester.node(observed));
    }

    fn keep(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.observe(|ingester| ingester.keep(kind, namespace, name));
    }
}

/// Returns one word for a change.
pub(super) fn word(change: &Change) -> String {
    let (what, is_set) = match change {
        Change::Service(name, service) => (name.to_string(), service.is_some()),
        Change::Slice(name, slice, _) => (name.to_string(), slice.is_some()),
        Change::Node(node) => ("node".to_owned(), node.is_some()),
        Change::Listed(kind) => return format!("{}]", kind.as_str()),
    };
    format!("{}{what}", if is_set { '+' } else { '-' })
}

#[track_caller]
fn check(send: impl Fn(&mut Collected), v4: &[&str], v6: &[&str]) {
    let mut collected = Collected::new();
    send(&mut collected);
    let found = collected.words;
    assert_eq!((found.v4, found.v6), (words_of(v4), words_of(v6)));
}

fn words_of(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn service(cluster_ip: &str) -> ServiceObject {
    let metadata = json!({ "namespace": "shop", "name": "cart" });
    serde_json::from_value(json!({ "metadata": metadata, "spec": { "clusterIP": cluster_ip } }))
        .unwrap()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`json!` values read better without a `&` before each"
)]
fn slice(address_type: Value, labels: Value) -> EndpointSliceObject {
    let metadata = json!({ "namespace": "shop", "name": "cart-x1", "labels": labels });
    serde_json::from_value(json!({ "metadata": metadata, "addressType": address_type })).unwrap()
}

fn node(name: &str) -> NodeObject {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

#[test]
fn services_go_to_the_families_of_their_cluster_ips() {
    check(
        |ingester| {
            ingester.service(SourceEvent::Listing);
            ingester.service(SourceEvent::Set(service("10.96.0.7")));
            ingester.service(SourceEvent::Deleted(service("").metadata.object_name()));
            ingester.service(SourceEvent::Listed);
        },
        &["+shop/cart", "-shop/cart", "Service]"],
        &["Service]"],
    );
}

#[test]
fn slices_go_to_their_family() {
    let labels = json!({ "kubernetes.io/service-name": "cart" });
    check(
        |ingester| ingester.endpoint_slice(SourceEvent::Set(slice(json!("IPv6"), labels.clone()))),
        &[],
        &["+shop/cart-x1"],
    );
    check(
        |ingester| {
            ingester.endpoint_slice(SourceEvent::Set(slice(json!("IPv4"), labels.clone())));
            ingester.endpoint_slice(SourceEvent::Set(slice(json!("IPv4"), json!({}))));
        },
        &["+shop/cart-x1", "-shop/cart-x1"],
        &[],
    );
    for unknown in [json!("FQDN"), json!(null)] {
        check(
            |ingester| {
                ingester.endpoint_slice(SourceEvent::Set(slice(unknown.clone(), labels.clone())));
            },
            &[],
            &[],
        );
        check(
            |ingester| {
                for family in ["IPv4", "IPv6"] {
                    ingester.endpoint_slice(SourceEvent::Set(slice(json!(family), labels.clone())));
                }
                ingester.endpoint_slice(SourceEvent::Deleted(
                    slice(unknown.clone(), json!({})).metadata.object_name(),
                ));
            },
            &["+shop/cart-x1", "-shop/cart-x1"],
            &["+shop/cart-x1", "-shop/cart-x1"],
        );
    }
}

/// Checks the changes for both families after a history of Nodes: `[` begins a list and `]` ends
/// it, and `?NAME` cannot be decoded.
#[track_caller]
fn check_nodes(history: &str, expected: &str) {
    let send = |collected: &mut Collected| {
        for word in history.split(' ') {
            let (first, name) = word.split_at(1);
            match first {
                "[" => collected.node(SourceEvent::Listing),
                "]" => collected.node(SourceEvent::Listed),
                "+" => collected.node(SourceEvent::Set(node(name))),
                "-" => collected.node(SourceEvent::Deleted(node(name).metadata.object_name())),
                _ => collected.keep(Kind::Node, "", name),
            }
        }
    };
    let both: Vec<&str> = expected.split(' ').collect();
    check(send, &both, &both);
}

#[test]
fn node_goes_to_both_families() {
    check_nodes("[ +here -here ]", "+node -node Node]");
}

#[test]
fn a_node_that_a_list_lacks_is_deleted() {
    check_nodes("[ +here ] [ ]", "+node Node] -node Node]");
}

#[test]
fn an_undecodable_node_is_kept() {
    check_nodes("[ +here ] [ ?here ]", "+node Node] Node]");
    check_nodes("[ +here ] [ ? ]", "+node Node] Node]");
    check_nodes("[ +here ] [ ?elsewhere ]", "+node Node] -node Node]");
}

#[test]
fn another_node_is_ignored() {
    check_nodes("[ +here +elsewhere ] + -elsewhere", "+node Node]");
    // A list of other Nodes alone lacks this one.
    check_nodes("[ +elsewhere ]", "-node Node]");
}

#[test]
fn an_undecodable_service_is_kept() {
    for (kept, swept) in [("cart", None), ("other", Some("-shop/cart"))] {
        let mut v4 = vec!["+shop/cart", "Service]"];
        v4.extend(swept);
        v4.push("Service]");
        check(
            |ingester| {
                ingester.service(SourceEvent::Listing);
                ingester.service(SourceEvent::Set(service("10.96.0.7")));
                ingester.service(SourceEvent::Listed);
                ingester.service(SourceEvent::Listing);
                ingester.keep(Kind::Service, "shop", kept);
                ingester.service(SourceEvent::Listed);
            },
            &v4,
            &["Service]", "Service]"],
        );
    }
}
