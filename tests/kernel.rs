//! The real programs against a real kernel, each test in network namespaces of its own.
//!
//! They need root and the iptables programs; without them a test prints why it skips, and with
//! `REQUIRE_KERNEL` set that is a failure.

use crate::scenario;

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltaproxy::testing::host::{BackendChoice, Binaries, Exec, Iptables};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::Backend;
use scenario::{Both, Scenario};

use crate::support::netns::enter_new;
use crate::support::{needs, skip, tell};

const BACKENDS: [(BackendChoice, Backend); 2] = [
    (BackendChoice::Nft, Backend::Nft),
    (BackendChoice::Legacy, Backend::Legacy),
];

fn block_on<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

/// Moves this thread into a fresh network namespace and finds the programs. `None`: skipped.
fn enter(choice: BackendChoice, family: IpFamily) -> Option<Exec> {
    if !enter_new() {
        return None;
    }
    let found = block_on(async {
        let programs = Binaries::discover(choice, family).await?;
        programs.probe().await?;
        Ok::<_, deltaproxy::testing::host::RunError>(programs)
    });
    match found {
        Ok(programs) => Some(Exec::new(programs)),
        Err(error) => {
            skip(&format!("{choice:?} {family}: {error}"));
            None
        }
    }
}

/// The replay of one scenario, `Ok(false)`: skipped. On a thread of its own, as threads keep
/// sockets of the namespace that they are in.
fn replay(scenario: &Scenario, choice: BackendChoice, backend: Backend) -> Result<bool, String> {
    std::thread::scope(|scope| {
        let replay = scope.spawn(|| replay_here(scenario, choice, backend));
        replay.join().unwrap_or_else(|cause| resume_unwind(cause))
    })
}

/// The same, in a namespace that this thread stays in.
fn replay_here(
    scenario: &Scenario,
    choice: BackendChoice,
    backend: Backend,
) -> Result<bool, String> {
    let Some(exec) = enter(choice, scenario.options.family) else {
        return Ok(false);
    };
    if scenario.options.keeps_counters
        && let Err(error) = block_on(exec.make_counter("tried"))
    {
        skip(&error.to_string());
        return Ok(false);
    }
    let run = scenario.run_on(backend, Both::with(exec));
    run.map(|()| true)
        .map_err(|error| format!("{backend}: {error}"))
}

#[test]
fn the_fake_kernel_is_honest() {
    needs!(Kernel);
    let scenarios = Scenario::all().unwrap();
    let jobs: Vec<_> = BACKENDS
        .iter()
        .flat_map(|backend| scenarios.iter().map(move |scenario| (scenario, *backend)))
        .collect();
    let next = AtomicUsize::new(0);
    let skipped = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some((scenario, (choice, backend))) =
            jobs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            match replay(scenario, *choice, *backend) {
                Ok(true) => {}
                Ok(false) => drop(skipped.fetch_add(1, Ordering::Relaxed)),
                Err(error) => failures.lock().unwrap().push(error),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
    let (skipped, failures) = (skipped.into_inner(), failures.into_inner().unwrap());
    tell(format_args!(
        "kernel: {} replays, {skipped} of them skipped",
        jobs.len()
    ));
    assert!(
        failures.is_empty(),
        "{} replays fail\n\n{}",
        failures.len(),
        failures.join("\n")
    );
}
