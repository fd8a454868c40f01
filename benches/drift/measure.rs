//! One program through all damages, and then left alone.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::args::Args;
use crate::client::{self, Client, with_client};
use crate::damage::{Damage, Damages};
use crate::shared::subject::{Node, Running, Subject};
use crate::support::daemon::Backend;
use crate::support::kube::ControlPlane;

/// After a repair, so that the next damage is not taken for the same contest: repairs of one chain
/// come every few seconds at most.
const CALM: Duration = Duration::from_millis(800);

/// What was seen of one program.
pub struct Run {
    pub backend: Backend,
    pub program: Subject,
    /// Outages; `None`: not repaired in time.
    pub outages: BTreeMap<Damage, Vec<Option<Duration>>>,
    /// Full restores of IPv4 but for those after a flush.
    pub full_restores: f64,
    /// Share of one CPU while nothing changes, with all that it starts.
    pub idle: Option<f64>,
    pub patience: Duration,
}

/// Damages rules again and again.
pub fn measure(control: &ControlPlane, backend: Backend, program: Subject, args: &Args) -> Run {
    let node = Node::new(control, backend, program);
    client::prepare(node.netns());
    let mut run = Run {
        backend,
        program,
        outages: BTreeMap::new(),
        full_restores: 0.0,
        idle: None,
        patience: args.patience,
    };
    with_client(node.netns(), |client| {
        let (mut running, _) = node.start();
        client.wait_until_served(args.patience);
        let place = Place {
            node: &node,
            client,
            damages: &Damages::of(&node),
        };
        let tries = if program == Subject::KubeProxy {
            1
        } else {
            args.tries
        };
        for number in 0..tries {
            for damage in Damage::ALL {
                let (outage, full) = place.try_once(&running, damage, args.patience);
                if damage != Damage::NatTable {
                    run.full_restores += full;
                }
                eprintln!("{number} {}: {outage:?}", damage.name());
                run.outages.entry(damage).or_default().push(outage);
                if outage.is_none() {
                    eprintln!("not repaired: {}", running.log());
                    running.stop();
                    (running, _) = node.start();
                    client.wait_until_served(args.patience);
                }
                thread::sleep(CALM + phase(number));
            }
        }
        for line in running.log().lines().filter(|line| line.contains("_ms=")) {
            eprintln!("{line}");
        }
        running.stop();
    });
    if !args.idle.is_zero() {
        let (running, _) = node.start();
        run.idle = Some(idle(&running, args));
        running.stop();
    }
    run
}

/// A node with the program on it, and the client.
struct Place<'a> {
    node: &'a Node,
    client: &'a Client,
    damages: &'a Damages,
}

impl Place<'_> {
    /// Returns the outage, and the full restores that there were.
    fn try_once(
        &self,
        running: &Running<'_>,
        damage: Damage,
        patience: Duration,
    ) -> (Option<Duration>, f64) {
        let before = running.sample().full.count;
        self.client.forget();
        self.damages.inflict(self.node, damage);
        let outage = self.client.outage(patience);
        // The sync that repairs ends after the rules are there.
        thread::sleep(CALM);
        (outage, running.sample().full.count - before)
    }
}

/// Spreads the damages over the second between two looks at the sizes of tables.
fn phase(number: usize) -> Duration {
    let steps = u64::try_from(number).unwrap();
    Duration::from_millis(steps * 137 % 1000)
}

fn idle(running: &Running<'_>, args: &Args) -> f64 {
    thread::sleep(args.settle);
    let before = running.usage();
    thread::sleep(args.idle);
    let used = running.usage() - before;
    (used.own_cpu + used.children_cpu) / args.idle.as_secs_f64()
}
