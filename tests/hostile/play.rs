//! Objects on their whole way to a payload: read, ingested, tracked, rendered.

use deltaproxy::testing::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{AppliedState, LiveChains, Options, PartialRestore};
use deltaproxy::testing::tracker::Tracker;
use deltaproxy::testing::watch::{Ingester, SourceEvent, change_channels};
use serde_json::{Value, json};

use super::objects::{Cluster, NODE, Twins};
use crate::cluster::{Dice, any_settings, tracker};
use crate::support::payloads;

/// Which of two twins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twin {
    Written,
    Meant,
}

impl Twin {
    fn of(self, twins: &Twins) -> Option<Value> {
        match self {
            Self::Written => Some(twins.written.clone()),
            Self::Meant => twins.meant.clone(),
        }
    }
}

/// Services whose rules no other object may change.
pub(crate) const SAFE: &str = "safe/web";

/// The Services and slices of a cluster, beside one that is in order.
pub(crate) struct Play {
    pub(crate) family: IpFamily,
    pub(crate) options: Options,
    tracker: Tracker,
}

impl Play {
    /// Only the Node and the Service that is in order.
    pub(crate) fn alone(cluster: &Cluster, twin: Twin, family: IpFamily) -> Self {
        let (senders, mut changes) = change_channels(None);
        let mut ingester = Ingester::new(senders, NODE.into());
        ingester.node(SourceEvent::Set(read::<NodeObject>(
            &twin.of(&cluster.node).unwrap(),
        )));
        let (service, slice) = in_order(family);
        ingester.service(SourceEvent::Set(read::<ServiceObject>(&service)));
        ingester.endpoint_slice(SourceEvent::Set(read::<EndpointSliceObject>(&slice)));
        let mut tracker = tracker(Vec::new());
        for change in changes.families.get_mut(family).take() {
            tracker.apply(change);
        }
        let environment = any_settings(&mut Dice::new(cluster.setting), family);
        let options = environment.options(tracker.node(), &[]);
        Self {
            family,
            options,
            tracker,
        }
    }

    /// Ingests all untrusted objects of the cluster.
    pub(crate) fn hears(&mut self, cluster: &Cluster, twin: Twin) {
        let (senders, mut changes) = change_channels(None);
        let mut ingester = Ingester::new(senders, NODE.into());
        for group in &cluster.groups {
            if let Some(service) = twin.of(&group.service) {
                ingester.service(SourceEvent::Set(read::<ServiceObject>(&service)));
            }
            for slice in group.slices.iter().filter_map(|slice| twin.of(slice)) {
                ingester.endpoint_slice(SourceEvent::Set(read::<EndpointSliceObject>(&slice)));
            }
        }
        for change in changes.families.get_mut(self.family).take() {
            self.tracker.apply(change);
        }
    }

    /// The full payload, and what the kernel then has.
    pub(crate) fn full(&self) -> (String, AppliedState) {
        let live = LiveChains::default();
        let (text, applied, _) = payloads::full(&self.tracker, &self.options, &live);
        (text, applied)
    }

    /// The partial payload for a kernel that has what the applied state says.
    pub(crate) fn partial(&mut self, applied: &mut AppliedState) -> String {
        let shape = PartialRestore::ChangedChains;
        payloads::partial(&mut self.tracker, &self.options, applied, shape).0
    }

    /// All that is known is in the kernel.
    pub(crate) fn settle(&mut self) {
        self.tracker.mark_applied();
    }
}

/// As text, the way an API server sends it.
fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_str(&object.to_string()).unwrap()
}

fn in_order(family: IpFamily) -> (Value, Value) {
    let (ip, endpoints) = match family {
        IpFamily::V4 => ("172.30.0.1", ["172.16.0.1", "172.16.0.2"]),
        IpFamily::V6 => ("fd01::1", ["fd02::1", "fd02::2"]),
    };
    let service = json!({
        "metadata": {"namespace": "safe", "name": "web"},
        "spec": {
            "clusterIP": ip,
            "externalTrafficPolicy": "Local",
            "type": "NodePort",
            "ports": [{"port": 80, "nodePort": 30080}, {"name": "x", "protocol": "UDP", "port": 80}],
        },
    });
    let endpoints = endpoints.map(|ip| json!({"addresses": [ip], "nodeName": NODE}));
    let slice = json!({
        "metadata": {
            "namespace": "safe", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": family.as_str(),
        "ports": [{"name": "", "port": 8080}],
        "endpoints": endpoints,
    });
    (service, slice)
}
