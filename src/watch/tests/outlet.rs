//! What the outlet tells each family.

use serde_json::{Value, json};

use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::{Change, Kind};
use crate::net::PerFamily;
use crate::watch::{Observed, Outlet};

type Collected = Outlet<PerFamily<Vec<Change>>>;

/// One word for each change.
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
    let mut outlet = Outlet::new(PerFamily::default(), "here".into());
    send(&mut outlet);
    let found = outlet.into_sink();
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
        |outlet| {
            outlet.service(Observed::<ServiceObject>::Listing);
            outlet.service(Observed::Set(service("10.96.0.7")));
            outlet.service(Observed::Gone(service("")));
            outlet.service(Observed::<ServiceObject>::Listed);
        },
        &both,
        &["[Service", "-shop/cart", "-shop/cart", "Service]"],
    );
}

#[test]
fn slices_go_to_their_family() {
    let labels = json!({ "kubernetes.io/service-name": "cart" });
    check(
        |outlet| outlet.endpoint_slice(Observed::Set(slice(json!("IPv6"), labels.clone()))),
        &[],
        &["+shop/cart-x1"],
    );
    check(
        |outlet| outlet.endpoint_slice(Observed::Set(slice(json!("IPv4"), json!({})))),
        &["-shop/cart-x1"],
        &[],
    );
    for unknown in [json!("FQDN"), json!(null)] {
        check(
            |outlet| outlet.endpoint_slice(Observed::Set(slice(unknown.clone(), labels.clone()))),
            &[],
            &[],
        );
        check(
            |outlet| outlet.endpoint_slice(Observed::Gone(slice(unknown.clone(), json!({})))),
            &["-shop/cart-x1"],
            &["-shop/cart-x1"],
        );
    }
}

#[test]
fn node_goes_to_both_families() {
    let both = ["[Node", "+node", "-node", "Node]"];
    check(
        |outlet| {
            outlet.node(Observed::<NodeObject>::Listing);
            outlet.node(Observed::Set(node("here")));
            outlet.node(Observed::Gone(node("here")));
            outlet.node(Observed::<NodeObject>::Listed);
        },
        &both,
        &both,
    );
}

#[test]
fn a_node_that_the_list_lacks_is_gone() {
    let both = ["[Node", "+node", "Node]", "[Node", "-node", "Node]"];
    check(
        |outlet| {
            outlet.node(Observed::<NodeObject>::Listing);
            outlet.node(Observed::Set(node("here")));
            outlet.node(Observed::<NodeObject>::Listed);
            outlet.node(Observed::<NodeObject>::Listing);
            outlet.node(Observed::<NodeObject>::Listed);
        },
        &both,
        &both,
    );
}

#[test]
fn a_node_that_cannot_be_read_is_kept() {
    for (unreadable, is_kept) in [("here", true), ("", true), ("elsewhere", false)] {
        let mut both = vec!["[Node", "+node", "Node]", "[Node", "-node", "Node]"];
        both.retain(|word| !is_kept || *word != "-node");
        check(
            |outlet| {
                outlet.node(Observed::<NodeObject>::Listing);
                outlet.node(Observed::Set(node("here")));
                outlet.node(Observed::<NodeObject>::Listed);
                outlet.node(Observed::<NodeObject>::Listing);
                outlet.keep(Kind::Node, "", unreadable);
                outlet.node(Observed::<NodeObject>::Listed);
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
        |outlet| {
            outlet.node(Observed::<NodeObject>::Listing);
            outlet.node(Observed::Set(node("here")));
            outlet.node(Observed::Set(node("elsewhere")));
            outlet.node(Observed::<NodeObject>::Listed);
            outlet.node(Observed::Set(node("")));
            outlet.node(Observed::Gone(node("elsewhere")));
        },
        &both,
        &both,
    );
    // A list of other Nodes alone lacks this one.
    check(
        |outlet| {
            outlet.node(Observed::<NodeObject>::Listing);
            outlet.node(Observed::Set(node("elsewhere")));
            outlet.node(Observed::<NodeObject>::Listed);
        },
        &["[Node", "-node", "Node]"],
        &["[Node", "-node", "Node]"],
    );
}
