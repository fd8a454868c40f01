//! The Services, and the changes that are made to them.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use http::Request;
use serde_json::{Value, json};

use super::store::{Store, cluster_ip};
use crate::support::api::Api;
use crate::support::kube::ControlPlane;
use crate::support::objects;

/// Endpoints are counted on from here: a whole /9 beside the Services' /12 and the pods' /14.
const FIRST_ENDPOINT: u32 = u32::from_be_bytes([10, 128, 0, 0]);
/// The addresses of endpoints that moved are this much higher, or more.
const MOVED: u32 = 1 << 22;
/// Changes in one batch: what the client has under way at once. More would wait in the client, and
/// a change is as old as its request.
const AT_ONCE: usize = 16;
/// Requests in one batch while loading: the client holds them all in memory.
const BATCH: usize = 2_000;

/// What the API server holds.
pub struct Load {
    services: usize,
    endpoints: usize,
    /// The cluster IP of each Service.
    cluster_ip: fn(usize) -> Ipv4Addr,
    /// How many endpoints were moved so far: each change moves the first one of the next Service.
    moves: usize,
    /// How many Services were added and removed again.
    extras: usize,
}

impl Load {
    pub fn new(services: usize, endpoints: usize) -> Self {
        Self {
            services,
            endpoints,
            cluster_ip,
            moves: 0,
            extras: 0,
        }
    }

    /// Of a control plane of its own, which has all of it, and the Node that is measured.
    pub fn in_new_cluster(services: usize, endpoints: usize) -> (ControlPlane, Self) {
        let load = Self::new(services, endpoints);
        let control = load.start_cluster();
        (control, load)
    }

    /// The same Services at other cluster IPs.
    pub fn at(self, cluster_ip: fn(usize) -> Ipv4Addr) -> Self {
        Self { cluster_ip, ..self }
    }

    /// Starts a control plane that has all of it, and the Node that is measured.
    pub fn start_cluster(&self) -> ControlPlane {
        self.start_cluster_with(&[])
    }

    /// Starts such a control plane with these flags of the API server.
    pub fn start_cluster_with(&self, server_flags: &'static [&'static str]) -> ControlPlane {
        let control = ControlPlane::start_with(server_flags);
        let node = objects::node("10.200.0.2", "fd00:200::2");
        control.api().apply(&node);
        self.create(&control);
        control
    }

    pub fn services(&self) -> usize {
        self.services
    }

    pub fn endpoints(&self) -> usize {
        self.endpoints
    }

    /// Creates everything.
    pub fn create(&self, control: &ControlPlane) {
        let numbers: Vec<usize> = (0..self.services).collect();
        let services = numbers
            .iter()
            .map(|&number| (name(number), (self.cluster_ip)(number)));
        Store::of(control).create_services(&services.collect::<Vec<_>>());
        for batch in numbers.chunks(BATCH) {
            let slices = batch.iter().map(|&number| self.post_slice(number));
            send(control.api(), slices.collect());
        }
    }

    /// Moves endpoints at a steady rate, and returns when each change was asked for. Changes that
    /// are due by the time the server has answered go out together.
    pub fn churn(&mut self, api: &Api, rate: u32, phase: Duration) -> Vec<Instant> {
        let began = Instant::now();
        let due_after =
            |changes: usize| (Duration::from_secs(1) / rate) * u32::try_from(changes).unwrap();
        let all = rate as usize * usize::try_from(phase.as_secs()).unwrap();
        let mut asked = Vec::with_capacity(all);
        while asked.len() < all {
            thread::sleep(due_after(asked.len()).saturating_sub(began.elapsed()));
            let next = asked.len() + 1..all.min(asked.len() + AT_ONCE);
            let late = next.take_while(|&n| due_after(n) <= began.elapsed());
            asked.extend(self.move_some(api, 1 + late.count()));
        }
        asked
    }

    /// Moves the first endpoint of each of the next Services, and returns when that was asked for.
    pub fn move_some(&mut self, api: &Api, changes: usize) -> Vec<Instant> {
        let (asked, requests) = (0..changes).map(|_| self.next_move()).unzip();
        send(api, requests);
        asked
    }

    fn next_move(&mut self) -> (Instant, Request<Vec<u8>>) {
        let (round, number) = (self.moves / self.services, self.moves % self.services);
        self.moves += 1;
        let moved = self.moved(round);
        let change = json!({
            "metadata": {"annotations": {TRIGGER: now()}},
            "endpoints": self.addresses(number, moved),
        });
        (Instant::now(), patch_slice(&name(number), &change))
    }

    /// Adds one more Service with its endpoints, or removes the one that was added.
    pub fn toggle_extra(&mut self, api: &Api) {
        let (extra, is_there) = (self.extras / 2, self.extras % 2 == 1);
        self.extras += 1;
        let name = format!("extra-{extra}");
        if is_there {
            send(api, vec![delete(&format!("{SLICES}/{name}-1"))]);
            send(api, vec![delete(&format!("{SERVICES}/{name}"))]);
        } else {
            let endpoints = self.addresses(self.services + extra, 0);
            // The slice first: the Service's arrival is then the one change of rules.
            send(api, vec![post(SLICES, &slice(&name, &endpoints))]);
            send(api, vec![post_service(&name)]);
        }
    }

    /// How far from its first address an endpoint is after so many moves: never where it was
    /// lately.
    fn moved(&self, round: usize) -> u32 {
        let all = u32::try_from(self.services * self.endpoints).unwrap();
        MOVED + u32::try_from(round).unwrap() % (MOVED / all) * all
    }

    fn post_slice(&self, number: usize) -> Request<Vec<u8>> {
        post(SLICES, &slice(&name(number), &self.addresses(number, 0)))
    }

    fn addresses(&self, number: usize, moved: u32) -> Value {
        let first = FIRST_ENDPOINT + u32::try_from(number * self.endpoints).unwrap();
        let addresses = (0..u32::try_from(self.endpoints).unwrap()).map(|endpoint| {
            let offset = if endpoint == 0 { moved } else { 0 };
            json!({
                "addresses": [Ipv4Addr::from(first + endpoint + offset).to_string()],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": format!("node-{}", (number + endpoint as usize) % 100),
                "targetRef": {"kind": "Pod", "namespace": "default",
                    "name": format!("{}-7d9f8b6c5d-{endpoint}", name(number)),
                    "uid": format!("7c5e0a1e-0000-4000-8000-{number:08x}{endpoint:04x}")},
                "zone": "zone-a",
            })
        });
        addresses.collect()
    }
}

/// Creates a Service without endpoints, as a user does.
pub fn create_service(api: &Api, name: &str) {
    send(api, vec![post_service(name)]);
}

/// Creates the endpoints of a Service: so many, of which the first has the address with this
/// number.
#[allow(clippy::indexing_slicing, reason = "the fields are there")]
pub fn create_endpoints(api: &Api, name: &str, (number, count): (usize, usize)) {
    let mut slice = slice(name, &addresses(name, number, count));
    slice["metadata"]["annotations"] = json!({TRIGGER: now()});
    send(api, vec![post(SLICES, &slice)]);
}

/// Replaces them.
pub fn scale_endpoints(api: &Api, name: &str, (number, count): (usize, usize)) {
    let change = json!({
        "metadata": {"annotations": {TRIGGER: now()}},
        "endpoints": addresses(name, number, count),
    });
    send(api, vec![patch_slice(name, &change)]);
}

/// Deletes a Service and its endpoints.
pub fn delete_service(api: &Api, name: &str) {
    send(api, vec![delete(&format!("{SLICES}/{name}-1"))]);
    send(api, vec![delete(&format!("{SERVICES}/{name}"))]);
}

fn addresses(service: &str, number: usize, count: usize) -> Value {
    let first = FIRST_ENDPOINT + MOVED + u32::try_from(number * 16).unwrap();
    let addresses = (0..u32::try_from(count).unwrap()).map(|endpoint| {
        json!({
            "addresses": [Ipv4Addr::from(first + endpoint).to_string()],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{endpoint}"),
            "targetRef": {"kind": "Pod", "namespace": "default",
                "name": format!("{service}-7d9f8b6c5d-{endpoint}")},
        })
    });
    addresses.collect()
}

fn now() -> String {
    let now = jiff::Timestamp::try_from(SystemTime::now()).unwrap();
    now.to_string()
}

const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn name(number: usize) -> String {
    format!("service-{number}")
}

fn post_service(name: &str) -> Request<Vec<u8>> {
    post(
        SERVICES,
        &json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "selector": {"app": name},
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            },
        }),
    )
}

fn slice(service: &str, endpoints: &Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-1"),
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

fn post(path: &str, object: &Value) -> Request<Vec<u8>> {
    let body = serde_json::to_vec(object).unwrap();
    let request = Request::post(path).header("content-type", "application/json");
    request.body(body).unwrap()
}

fn patch_slice(service: &str, change: &Value) -> Request<Vec<u8>> {
    let body = serde_json::to_vec(change).unwrap();
    let request = Request::patch(format!("{SLICES}/{service}-1"));
    let request = request.header("content-type", "application/merge-patch+json");
    request.body(body).unwrap()
}

fn delete(path: &str) -> Request<Vec<u8>> {
    Request::delete(path).body(Vec::new()).unwrap()
}

fn send(api: &Api, requests: Vec<Request<Vec<u8>>>) {
    for answer in api.send(requests) {
        answer.unwrap_or_else(|error| panic!("the API server: {error}"));
    }
}
