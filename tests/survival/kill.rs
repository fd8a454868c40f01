//! The daemon killed at random moments of a start or a sync.

use std::time::{Duration, Instant};

use crate::cluster::Dice;
use crate::support::daemon::{Backend, backend_programs};
use crate::support::process::Process;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{on_both_backends, tell};
use crate::survival::scene::{Scene, through_shell};

/// Kills in CI; `SURVIVAL_KILLS` asks for another number.
const KILLS: usize = 25;

/// A start or a sync takes less.
const LATEST_KILL_MILLIS: usize = 250;

fn kills_at_random_moments_are_survived(backend: Backend) {
    let kills = std::env::var("SURVIVAL_KILLS").ok();
    let kills = kills.map_or(KILLS, |text| {
        text.parse().expect("SURVIVAL_KILLS is a number")
    });
    let seed = u64::from(std::process::id());
    tell(format!(
        "fault: {}: {kills} kills, seed {seed}",
        backend.name()
    ));
    let mut dice = Dice::new(seed);
    let scene = Scene::new(backend);
    let bin = backend_programs(backend);
    let log = scene.node.manifests.path().join(".log");
    let start = || {
        Process::start(
            "the proxy",
            &mut through_shell(&scene.node, &bin, "", ""),
            &log,
        )
    };
    let mut longest = Duration::ZERO;
    for _ in 0..kills {
        let daemon = start();
        if dice.chance(50) {
            scene.wait_until_fresh("before a kill", || daemon.log());
        }
        scene.change();
        let millis = u64::try_from(dice.below(LATEST_KILL_MILLIS)).expect("small");
        std::thread::sleep(Duration::from_millis(millis));
        drop(daemon);
        let killed = Instant::now();
        eventually(PATIENCE, || {
            let left = scene.node.netns.pids();
            ensure(left.is_empty(), || format!("left over: {left:?}"))
        });
        let next = start();
        scene.wait_until_fresh("after a kill", || next.log());
        longest = longest.max(killed.elapsed());
    }
    scene.report("kill -9 and start, longest", longest);
}

on_both_backends!(Kernel, kills_at_random_moments_are_survived);
