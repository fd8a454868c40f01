//! Changes that the ingester sends to each family.

use serde_json::{Value, json};

use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::{Change, Kind};
use crate::net::PerFamily;
use crate::watch::{Ingester, Observed};

type Collected = Ingester<PerFamily<Vec<Change>>>;

/// Returns one word for a change.
pub(super) fn word(change: &Change) -> String {
    let (what, is_set) = match change {
        Change::ServiceKept(name) => (format!("kept {name}"), true),
        Change::SliceKept(name) => (format!("kept {name}"), true),
        Change::Service(name, service) => (name.to_string(), service.is_some()),
        Change::Slice(name, slice, _) => (name.to_string(), slice.is_some()),
        Change::Node(node) => ("node".to_owned(), node.is_some()),
        Change::Listing(kind) => return format!("[{}", kind.as_str()),
        Change::Listed(kind) => return format!("{}]", kind.as_str()),
    };
    format!("{}{what}", if is_set { '+' } else { '-' })
}

#[track_caller]
fn check(send: impl Fn(&mut Collected), v4: &[&str], v6: &[&str]) {
    let mut ingester = Ingester::new(PerFamily::default(), "here".into());
    send(&mut ingester);
    let found = ingester.into_sink();
    let words = |changes: Vec<Change>| changes.iter().map(word).collect::<Vec<_>>();
    assert_eq!(
        (words(found.v4), words(found.v6)),
        (words_of(v4), words_of(v6))
    );
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
fn every_service_goes_to_both_families() {
    let both = ["[Service", "+shop/cart", "-shop/cart", "Service]"];
    check(
        |ingester| {
            ingester.service(Observed::<ServiceObject>::Listing);
            ingester.service(Observed::Set(service("10.96.0.7")));
            ingester.service(Observed::Deleted(service("")));
            ingester.service(Observed::<ServiceObject>::Listed);
        },
        &both,
        &["[Service", "-shop/cart", "-shop/cart", "Service]"],
    );
}

#[test]
fn slices_go_to_their_family() {
    let labels = json!({ "kubernetes.io/service-name": "cart" });
    check(
        |ingester| ingester.endpoint_slice(Observed::Set(slice(json!("IPv6"), labels.clone()))),
        &[],
        &["+shop/cart-x1"],
    );
    check(
        |ingester| ingester.endpoint_slice(Observed::Set(slice(json!("IPv4"), json!({})))),
        &["-shop/cart-x1"],
        &[],
    );
    for unknown in [json!("FQDN"), json!(null)] {
        check(
            |ingester| {
                ingester.endpoint_slice(Observed::Set(slice(unknown.clone(), labels.clone())));
            },
            &[],
            &[],
        );
        check(
            |ingester| {
                ingester.endpoint_slice(Observed::Deleted(slice(unknown.clone(), json!({}))));
            },
            &["-shop/cart-x1"],
            &["-shop/cart-x1"],
        );
    }
}

#[test]
fn node_goes_to_both_families() {
    let both = ["[Node", "+node", "-node", "Node]"];
    check(
        |ingester| {
            ingester.node(Observed::<NodeObject>::Listing);
            ingester.node(Observed::Set(node("here")));
            ingester.node(Observed::Deleted(node("here")));
            ingester.node(Observed::<NodeObject>::Listed);
        },
        &both,
        &both,
    );
}

#[test]
fn a_node_that_a_list_lacks_is_deleted() {
    let both = ["[Node", "+node", "Node]", "[Node", "-node", "Node]"];
    check(
        |ingester| {
            ingester.node(Observed::<NodeObject>::Listing);
            ingester.node(Observed::Set(node("here")));
            ingester.node(Observed::<NodeObject>::Listed);
            ingester.node(Observed::<NodeObject>::Listing);
            ingester.node(Observed::<NodeObject>::Listed);
        },
        &both,
        &both,
    );
}

#[test]
fn an_undecodable_node_is_kept() {
    for (unreadable, is_kept) in [("here", true), ("", true), ("elsewhere", false)] {
        let mut both = vec!["[Node", "+node", "Node]", "[Node", "-node", "Node]"];
        both.retain(|word| !is_kept || *word != "-node");
        check(
            |ingester| {
                ingester.node(Observed::<NodeObject>::Listing);
                ingester.node(Observed::Set(node("here")));
                ingester.node(Observed::<NodeObject>::Listed);
                ingester.node(Observed::<NodeObject>::Listing);
                ingester.keep(Kind::Node, "", unreadable);
                ingester.node(Observed::<NodeObject>::Listed);
            },
            &both,
            &both,
        );
    }
}

#[test]
fn another_node_is_ignored() {
    let both = ["[Node", "+node", "Node]"];
    check(
        |ingester| {
            ingester.node(Observed::<NodeObject>::Listing);
            ingester.node(Observed::Set(node("here")));
            ingester.node(Observed::Set(node("elsewhere")));
            ingester.node(Observed::<NodeObject>::Listed);
            ingester.node(Observed::Set(node("")));
            ingester.node(Observed::Deleted(node("elsewhere")));
        },
        &both,
        &both,
    );
    // A list of other Nodes alone lacks this one.
    check(
        |ingester| {
            ingester.node(Observed::<NodeObject>::Listing);
            ingester.node(Observed::Set(node("elsewhere")));
            ingester.node(Observed::<NodeObject>::Listed);
        },
        &["[Node", "-node", "Node]"],
        &["[Node", "-node", "Node]"],
    );
}
