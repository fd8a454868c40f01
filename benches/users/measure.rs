//! One program under each number of users.

use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::figures::{Latency, Run};
use crate::shared::cgroup::Cgroup;
use crate::shared::latency::{attribute, watched};
use crate::shared::scrape::Sample;
use crate::shared::subject::{Node, Running, Subject};
use crate::support::api::Api;
use crate::support::kube::ControlPlane;
use crate::user;

/// Iterations of each user, unless given.
const EACH: usize = 10;

/// After a start: what is still on its way arrives within this.
const QUIET: Duration = Duration::from_secs(3);

pub fn measure(control: &ControlPlane, services: usize, program: Subject, args: &Args) -> Vec<Run> {
    let node = Node::new(control, args.backend, program);
    let run = |&users: &usize| {
        eprintln!("{services} Services, {}: {users} users", program.name());
        let cgroup = Cgroup::new();
        let (running, _) = cgroup.start(|| node.start());
        thread::sleep(QUIET);
        let iterations = args.iterations.unwrap_or(users * EACH);
        let (before, used) = (running.sample(), running.usage());
        let (seconds, asked, samples) = under_load(control, &running, users, iterations);
        let used = running.usage() - used;
        let after = running.sample();
        let peak = cgroup.peak().programs;
        running.stop();
        let latencies = attribute(&asked, &samples);
        Run {
            services,
            backend: args.backend,
            program,
            users,
            iterations,
            seconds,
            latency: Latency::of(&latencies),
            counted: latencies.len(),
            syncs: (after.sync - before.sync).count,
            own_cpu: used.own_cpu,
            children_cpu: used.children_cpu,
            own_memory: used.peak_rss,
            peak_memory: peak,
        }
    };
    args.users.iter().map(run).collect()
}

/// Returns how long the users took, when each change was asked for, in this order, and what the
/// program has counted meanwhile.
fn under_load(
    control: &ControlPlane,
    running: &Running<'_>,
    users: usize,
    iterations: usize,
) -> (f64, Vec<Instant>, Vec<Sample>) {
    let taken = &AtomicUsize::new(0);
    let clients: Vec<Api> = (0..users).map(|_| control.client()).collect();
    let ((seconds, mut asked), samples) = watched(running, || {
        let began = Instant::now();
        let asked: Vec<Instant> = thread::scope(|scope| {
            let work = |api| scope.spawn(move || user::work(api, taken, iterations));
            let users: Vec<_> = clients.iter().map(work).collect();
            let users = users.into_iter();
            users.flat_map(|user| user.join().unwrap()).collect()
        });
        (began.elapsed().as_secs_f64(), asked)
    });
    asked.sort();
    (seconds, asked, samples)
}
