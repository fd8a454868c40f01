//! One program through all phases, with a control plane of its own.

use std::thread;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::counted::Counted;
use crate::figures::{Phase, Run};
use crate::fleet::{Fleet, nodes};
use crate::meter::{Meter, SERVER, Server, usage};
use crate::shared::load::Load;
use crate::subject::Subject;
use crate::support::kube::ControlPlane;
use crate::support::netns::Netns;
use crate::wire::{at_most, wait_for_silence};

/// After changes: what is still on its way arrives within this.
const SETTLE: Duration = Duration::from_secs(3);
/// How long the server is away.
const OUTAGE: Duration = Duration::from_secs(5);
/// How long all may take to come back: pauses grow to a minute.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Starts the fleet, changes things, leaves it alone, restarts the server.
pub fn measure(subject: Subject, args: &Args) -> Run {
    let mut control = ControlPlane::start();
    let node = Netns::new("fleet");
    control.attach(&node, 2);
    let mut load = Load::new(args.services, args.endpoints);
    load.create(&control);
    control.api().apply_all(&nodes(args.watchers));
    thread::sleep(SETTLE);

    let (fleet, start) = start(&control, &node, subject, args);
    eprintln!("started: {start:?}");
    let meter = Meter::open(&control, &node, Some(&fleet), Server::Running);
    let changes = load.churn(control.api(), args.rate, args.phase).len();
    thread::sleep(SETTLE);
    let churn = meter.close(&control, &node, &fleet);
    eprintln!("changed: {churn:?}");
    let meter = Meter::open(&control, &node, Some(&fleet), Server::Running);
    // A bookmark a minute is most of what comes.
    thread::sleep(args.phase * 2);
    let idle = meter.close(&control, &node, &fleet);
    eprintln!("idle: {idle:?}");
    let (fleet_rss, fleet_peak_rss) = (fleet.rss(), fleet.peak_rss());
    let peak_rss = usage(&control, SERVER).peak_rss;
    let restart = restart(&mut control, &node, &fleet, start.watches);
    eprintln!("restarted: {restart:?}");
    Run {
        program: subject,
        watchers: fleet.len(),
        services: load.services(),
        endpoints: load.endpoints(),
        start,
        churn,
        changes,
        idle,
        restart,
        fleet_rss,
        fleet_peak_rss,
        peak_rss,
    }
}

fn start(control: &ControlPlane, node: &Netns, subject: Subject, args: &Args) -> (Fleet, Phase) {
    let meter = Meter::open(control, node, None, Server::Running);
    let (fleet, most) = at_most(node, || {
        let mut fleet = Fleet::start(control, node, subject, args.watchers);
        fleet.wait_until_synced(node);
        wait_for_silence(node, fleet.len());
        fleet
    });
    let phase = meter.close(control, node, &fleet);
    let most_sent = Some(most);
    (fleet, Phase { most_sent, ..phase })
}

/// Until there are as many watches as before.
fn restart(control: &mut ControlPlane, node: &Netns, fleet: &Fleet, watches: f64) -> Phase {
    control.stop_server();
    thread::sleep(OUTAGE);
    let meter = Meter::open(control, node, Some(fleet), Server::New);
    let ((), most) = at_most(node, || {
        control.start_server();
        wait_until_back(control, node, fleet.len(), watches);
    });
    let phase = meter.close(control, node, fleet);
    let most_sent = Some(most);
    Phase { most_sent, ..phase }
}

fn wait_until_back(control: &ControlPlane, node: &Netns, watchers: usize, wanted: f64) {
    let began = Instant::now();
    loop {
        wait_for_silence(node, watchers);
        let found = Counted::read(control).watches;
        if found >= wanted {
            return;
        }
        let is_early = began.elapsed() < PATIENCE;
        assert!(is_early, "{found} watches of {wanted} are back");
    }
}
