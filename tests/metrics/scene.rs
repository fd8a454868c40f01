//! One control plane and two machines that are the same Node to both programs: kube-proxy runs on
//! one, deltaproxy on the other. Their `iptables-restore` can be made to fail.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::kube::ControlPlane;
use crate::support::netns::Netns;
use crate::support::node::with_restore;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, objects};

/// Fails once if there is a file `once`, and always if there is a file `broken`.
const RESTORE: &str = "\
    if mv FOLDER/once FOLDER/gone 2>/dev/null || [ -e FOLDER/broken ]; then\n\
    cat >/dev/null; exit 1; fi\n\
    exec $REAL \"$@\"";

/// What a proxy counts and measures, by series: times aside.
pub type Counts = BTreeMap<String, u64>;

/// One machine and what runs on it.
pub struct Machine {
    _daemon: Daemon,
    pub netns: Netns,
    bin: PathBuf,
}

/// kube-proxy's machine, and ours.
pub struct Scene {
    // Dropped from top to bottom: programs before the server they talk to.
    pub theirs: Machine,
    pub ours: Machine,
    control: ControlPlane,
}

/// The control plane with its first objects, none of which comes later by itself.
pub fn control_plane(first: &[Value]) -> ControlPlane {
    let control = ControlPlane::start();
    let api = control.api();
    api.apply(&objects::node("10.200.0.2", "fd00:200::2"));
    api.apply_all(first);
    eventually(PATIENCE, || {
        let of_the_server =
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
        api.get(of_the_server)
    });
    control
}

impl Scene {
    pub fn new(first: &[Value], flags: &[&str]) -> Self {
        let control = control_plane(first);
        let theirs = Machine::new(&control, &Program::kube_proxy(), 2, flags);
        let ours = Machine::new(&control, &Program::Deltaproxy, 3, flags);
        Self {
            theirs,
            ours,
            control,
        }
    }

    pub fn api(&self) -> &Api {
        self.control.api()
    }

    /// Waits until what kube-proxy and what deltaproxy counts is as the check wants it.
    #[track_caller]
    pub fn until(&self, check: impl Fn(&Counts, &Counts) -> Result<(), String>) {
        eventually(PATIENCE, || {
            let (theirs, ours) = (self.theirs.counts()?, self.ours.counts()?);
            check(&theirs, &ours)
                .map_err(|why| format!("{why}\nkube-proxy: {theirs:#?}\ndeltaproxy: {ours:#?}"))
        });
    }

    /// Makes both programs' restores fail: `once`, or while they are `broken`.
    pub fn fail(&self, how: &str) {
        for machine in [&self.theirs, &self.ours] {
            fs::write(machine.bin.join(how), "").unwrap();
        }
    }

    /// Ends that.
    pub fn mend(&self) {
        for machine in [&self.theirs, &self.ours] {
            fs::remove_file(machine.bin.join("broken")).unwrap();
        }
    }
}

impl Machine {
    fn new(control: &ControlPlane, program: &Program, host: u8, flags: &[&str]) -> Self {
        let netns = Netns::new("metrics");
        control.attach(&netns, host);
        let kubeconfig = format!("--kubeconfig={}", control.proxy_kubeconfig().display());
        let hostname = format!("--hostname-override={}", objects::NODE);
        let common: &[&str] = &[
            &kubeconfig,
            &hostname,
            "--cluster-cidr=10.4.0.0/14,fd00:10:4::/48",
            "--iptables-sync-period=1s",
            "--iptables-min-sync-period=0s",
        ];
        let folder = tempfile::tempdir().unwrap();
        let faults = folder.path().to_owned();
        let script = RESTORE.replace("FOLDER", &faults.display().to_string());
        let bin = with_restore(Backend::Nft, &script);
        let args = [common, flags].concat();
        let daemon = Daemon::start_with(program, &netns, bin, &args);
        Self {
            _daemon: daemon.keeping(folder),
            netns,
            bin: faults,
        }
    }

    /// All that it says of its work, without time stamps, durations and sums of them; how many
    /// durations there are is counted.
    pub fn counts(&self) -> Result<Counts, String> {
        let (_, page) = http::get(&self.netns, Daemon::METRICS, "/metrics")?;
        let lines = page.lines().filter(|line| line.starts_with("kubeproxy_"));
        let series = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            let is_count = !name.contains("_seconds") || name.contains("_seconds_count");
            Some((name.strip_prefix("kubeproxy_")?, value)).filter(|_| is_count)
        });
        let counts = series.map(|(name, value)| Ok((name.to_owned(), value.parse()?)));
        counts
            .collect::<Result<_, std::num::ParseIntError>>()
            .map_err(|error| format!("{error} in {page}"))
    }

    /// Asks its health server so often.
    pub fn ask(&self, path: &str, times: usize) {
        for _ in 0..times {
            http::get(&self.netns, Daemon::HEALTH, path).unwrap();
        }
    }
}

/// One series, 0 if it is not there yet.
pub fn of(counts: &Counts, series: &str) -> u64 {
    counts.get(series).copied().unwrap_or_default()
}

/// A counter of kube-proxy appears with what it counts first, some of ours at 0.
fn is_zero_early(name: &str, theirs: &Counts, ours: &Counts) -> bool {
    let counters = [
        "conntrack_reconciler_deleted_entries_total",
        "proxy_healthz_total",
        "proxy_livez_total",
        "sync_proxy_rules_iptables_partial_restore_failures_total",
        "sync_proxy_rules_iptables_restore_failures_total",
    ];
    let is_counter = counters.iter().any(|counter| name.starts_with(counter));
    is_counter && !theirs.contains_key(name) && ours.get(name) == Some(&0)
}

/// Complains of series that are not the same in both, but for those that begin like one of `but`.
pub fn same(theirs: &Counts, ours: &Counts, but: &[&str]) -> Result<(), String> {
    let is_same = |name: &&String| {
        but.iter().any(|begin| name.starts_with(begin))
            || theirs.get(*name) == ours.get(*name)
            || is_zero_early(name, theirs, ours)
    };
    let all = theirs.keys().chain(ours.keys());
    let others: Vec<_> = all.filter(|name| !is_same(name)).collect();
    ensure(others.is_empty(), || format!("they differ in {others:?}"))
}

/// Complains unless the series have these values.
pub fn says(counts: &Counts, wanted: &[(&str, u64)]) -> Result<(), String> {
    for (series, value) in wanted {
        let found = counts.get(*series);
        ensure(found == Some(value), || {
            format!("{series} should be {value}")
        })?;
    }
    Ok(())
}

/// A slice whose endpoints are on another node.
pub fn elsewhere(service: &Value, addresses: &[&str]) -> Value {
    let mut slice = objects::slice(service, addresses);
    for endpoint in slice["endpoints"].as_array_mut().unwrap() {
        endpoint["nodeName"] = json!("node2");
    }
    slice
}
