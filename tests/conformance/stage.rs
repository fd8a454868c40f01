//! Pairs of nodes on one control plane, and what happens to them step by step.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::compare::Rules;
use super::faults::{self, Fault};
use super::marker::{self, Marker};
use super::node::Node;
use super::support::api::Api;
use super::support::daemon::Program;
use super::support::kube::ControlPlane;
use super::support::objects;
use super::support::rules::Family;
use super::support::wait::{PATIENCE, ensure, eventually};
use super::variant::{NODE_ADDRESSES, Variant};

/// The label that tells a node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// How often kube-proxy looks for stale chains in a large cluster (the nodes' sync period), and a
/// little more.
const STALE_CHAINS_GO: Duration = Duration::from_millis(1100);

/// How much of a program's log a report shows.
const LOG_LINES: usize = 15;

/// One thing that is done to the cluster or to a node.
#[derive(Debug, Clone)]
pub enum Op {
    /// Create or change an object, which the server may find invalid.
    Apply(Value),
    /// Delete an object.
    Delete(Value),
    /// Give the Node another zone, or none.
    Zone(Option<&'static str>),
    /// Empty the kernels' tables, as a firewall's restart does.
    Flush,
    /// The two programs of each pair change places.
    Exchange,
    /// Start kube-proxy anew.
    RestartUpstream,
    /// Start deltaproxy anew.
    RestartOurs,
    /// Cause a fault on deltaproxy's node, where this number decides.
    Fault(Fault, usize),
    /// End a fault that lasts.
    EndFault(Fault),
}

/// What one step did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Whether kube-proxy's rules changed, besides those of the marker.
    pub has_changed_rules: bool,
    /// Whether kube-proxy's IPv4 chains are written without comments on endpoints, as those of the
    /// marker are that each step writes anew.
    pub is_large: bool,
    /// Objects that the server found invalid, with its reasons. The rest was done.
    pub refused: Vec<(usize, String)>,
    /// Both programs' rules, where they differ.
    pub differences: String,
    /// What faults have done, variant by variant.
    pub damage: Vec<String>,
    /// From the last operation until the rules were equal, where there were faults.
    pub repaired_after: Duration,
}

/// How the rules of a node are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Every sync leaves the final rules.
    Small,
    /// Above the threshold kube-proxy leaves stale chains for a while.
    Large,
}

/// A control plane with pairs of nodes, each pair in one variant.
pub struct Stage {
    // Dropped from top to bottom: programs before the server they talk to.
    pairs: Vec<[Node; 2]>,
    marker: Marker,
    /// kube-proxy's rules after the last step, those of the marker aside.
    seen: Vec<Vec<String>>,
    /// What faults have done since the step began.
    damage: Vec<String>,
    /// Whether there are faults.
    has_faults: bool,
    control: ControlPlane,
}

impl Stage {
    /// A control plane with the Node and the namespaces `names`, and no pairs yet.
    pub fn new(names: &[&str]) -> Self {
        let control = ControlPlane::start();
        let namespaces: Vec<Value> = names.iter().map(|name| objects::namespace(name)).collect();
        let [v4, v6] = NODE_ADDRESSES;
        control.api().apply(&objects::node(v4, v6));
        control.api().apply(&objects::namespace(marker::NAMESPACE));
        control.api().apply_all(&namespaces);
        control.api().apply_all(&Marker::default().objects());
        Self {
            pairs: Vec::new(),
            marker: Marker::default(),
            seen: Vec::new(),
            damage: Vec::new(),
            has_faults: false,
            control,
        }
    }

    /// Prepares deltaproxy's nodes for faults: has to be called before they start.
    pub fn expect_faults(&mut self) {
        self.has_faults = true;
    }

    /// Ends the pairs that there are and starts one for each variant.
    pub fn cast(&mut self, variants: &[&'static Variant]) {
        self.pairs.clear();
        let hosts = (10_u8..).step_by(2);
        for (variant, host) in variants.iter().zip(hosts) {
            let mut pair = [
                Node::new(&self.control, Program::kube_proxy(), variant, host),
                Node::new(&self.control, Program::Deltaproxy, variant, host + 1),
            ];
            if self.has_faults {
                pair[1].expect_faults();
            }
            pair.iter_mut().for_each(Node::restart);
            self.pairs.push(pair);
        }
    }

    /// The API server.
    pub fn api(&self) -> &Api {
        self.control.api()
    }

    /// The pairs, kube-proxy's node first.
    pub fn pairs(&mut self) -> &mut [[Node; 2]] {
        &mut self.pairs
    }

    /// The same, to look at.
    pub fn pairs_now(&self) -> &[[Node; 2]] {
        &self.pairs
    }

    /// Does `ops` one after the other without looking at rules: before the pairs start.
    pub fn prepare(&mut self, ops: &[Op]) -> Vec<(usize, String)> {
        let done = ops.iter().enumerate();
        done.filter_map(|(at, op)| Some((at, self.act(op).err()?)))
            .collect()
    }

    /// Does `ops` one after the other, waits until all programs have seen them, and compares.
    pub fn step(&mut self, ops: &[Op], size: Size) -> Effect {
        let is_full = ops.iter().any(|op| matches!(op, Op::Zone(_) | Op::Flush));
        let full_syncs = is_full.then(|| self.full_syncs());
        self.damage.clear();
        let refused = self.prepare(ops);
        let ended = Instant::now();
        if let Some(before) = full_syncs {
            self.wait_for_full_syncs(&before);
        }
        self.settle(self.marker.next());
        if size == Size::Large {
            std::thread::sleep(STALE_CHAINS_GO);
            self.settle(self.marker.next_service());
        }
        let is_repaired = |op: &Op| matches!(op, Op::Flush | Op::Fault(..));
        let (seen, differences) = if ops.iter().any(is_repaired) {
            // A program may look while only some tables are empty, and once more then.
            eventually(PATIENCE, || {
                let (seen, differences) = self.compare();
                if differences.is_empty() {
                    Ok((seen, differences))
                } else {
                    Err(differences)
                }
            })
        } else {
            self.compare()
        };
        let has_changed_rules = self.seen != seen;
        self.seen = seen;
        Effect {
            has_changed_rules,
            is_large: !self.pairs[0][0]
                .saved(Family::V4)
                .contains("marker/marker -> "),
            refused,
            differences,
            damage: std::mem::take(&mut self.damage),
            repaired_after: ended.elapsed(),
        }
    }

    fn act(&mut self, op: &Op) -> Result<(), String> {
        let api = self.control.api();
        match op {
            Op::Apply(object) => match api.offer(object) {
                Err(why) if !why.contains("code: 422") => panic!("{object}: {why}"),
                result => return result,
            },
            Op::Delete(object) => api.delete_if_there(object),
            Op::Zone(zone) => {
                let [v4, v6] = NODE_ADDRESSES;
                let change = json!({"metadata": {"labels": {ZONE: zone}}});
                api.merge(&objects::node(v4, v6), &change);
                let nodes = self.pairs.iter_mut().flatten();
                nodes.for_each(|node| node.has_zone = zone.is_some());
            }
            Op::Flush => self.pairs.iter().flatten().for_each(Node::flush),
            Op::Exchange => self.pairs.iter_mut().for_each(exchange),
            Op::RestartUpstream => self.pairs.iter_mut().for_each(|pair| pair[0].restart()),
            Op::RestartOurs => self.pairs.iter_mut().for_each(|pair| pair[1].restart()),
            Op::Fault(fault, number) => {
                for [_, ours] in &mut self.pairs {
                    self.damage.push(faults::cause(ours, *fault, *number));
                }
            }
            Op::EndFault(fault) => {
                for [_, ours] in &mut self.pairs {
                    faults::end(ours, *fault);
                }
            }
        }
        Ok(())
    }

    /// Waits until every program's rules show everything that has been written so far.
    fn settle(&mut self, marker: Marker) {
        self.marker = marker;
        self.control.api().apply_all(&self.marker.objects());
        for node in self.pairs.iter_mut().flatten() {
            for family in Family::ALL {
                let signs = marker.signs(family);
                eventually(PATIENCE, || node.shows(family, &signs));
            }
        }
    }

    fn full_syncs(&self) -> Vec<u64> {
        self.pairs.iter().flatten().map(Node::full_syncs).collect()
    }

    /// A Node has a watch of its own, which the marker says nothing about; but a new zone means a
    /// full sync of both families.
    fn wait_for_full_syncs(&self, before: &[u64]) {
        for (node, before) in self.pairs.iter().flatten().zip(before) {
            eventually(PATIENCE, || {
                let now = node.full_syncs();
                ensure(now >= before + 2, || {
                    let (name, who) = (node.variant().name, node.who());
                    format!("variant `{name}`: {who} made {now} full syncs, {before} before")
                })
            });
        }
    }

    fn rules(&self, saved: &str) -> Rules {
        let rules = Rules::read(saved);
        if self.has_faults {
            rules.after_faults(faults::NEIGHBOR)
        } else {
            rules
        }
    }

    /// kube-proxy's rules, the marker's aside, and where they (`-`) and ours (`+`) differ.
    fn compare(&self) -> (Vec<Vec<String>>, String) {
        let mut text = String::new();
        let mut seen = Vec::new();
        for pair in &self.pairs {
            let [upstream, ours] = [&pair[0], &pair[1]].map(Node::route_localnet);
            if upstream != ours {
                let name = pair[1].variant().name;
                let _ = writeln!(text, "variant `{name}`: route_localnet {upstream}, {ours}");
            }
            for family in Family::ALL {
                let [upstream, ours] = [&pair[0], &pair[1]].map(|node| node.saved(family));
                let [upstream, ours] = [self.rules(&upstream), self.rules(&ours)];
                let differences = upstream.differences(&ours);
                if !differences.is_empty() {
                    text += &report(pair, family, &differences);
                }
                seen.push(upstream.without("marker/"));
            }
        }
        (seen, text)
    }
}

/// Each takes over the other's rules. kube-proxy's node is the first one again.
fn exchange(pair: &mut [Node; 2]) {
    let [first, second] = pair;
    first.exchange(Program::Deltaproxy);
    second.exchange(Program::kube_proxy());
    pair.swap(0, 1);
}

fn report(pair: &[Node; 2], family: Family, differences: &str) -> String {
    let mut text = format!(
        "variant `{}`, {family:?}\n{differences}",
        pair[1].variant().name
    );
    for node in pair {
        let log = node.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n    ");
        let _ = writeln!(text, "  log of {}:\n    {last}", node.who());
    }
    text
}
