//! One node: a namespace, one of the two programs in it, and what its kernel holds.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::releases::Release;
use super::support::daemon::Backend;
use super::support::daemon::{Daemon, Program, backend_programs, real_program};
use super::support::kube::ControlPlane;
use super::support::netns::Netns;
use super::support::node::replace_program;
use super::support::process::{children, run};
use super::support::rules::{Family, restore, saved};
use super::support::wait::{PATIENCE, ensure, eventually};
use super::support::{http, objects};
use super::variant::Variant;

/// Flags of both programs in every variant: a namespace may not raise the machine's conntrack
/// limits, and a report wants to know what was done.
const COMMON_FLAGS: [&str; 3] = [
    "--proxy-mode=iptables",
    "--conntrack-max-per-core=0",
    "-v=2",
];

/// The canary's table first: kube-proxy looks there, and then for the others.
const EMPTY: &str = "*mangle\nCOMMIT\n*nat\nCOMMIT\n*filter\nCOMMIT\n";

/// A node that runs one program in one variant. Both nodes of a pair run as
/// [`objects::NODE`].
pub struct Node {
    /// `None` while stopped.
    daemon: Option<Daemon>,
    program: Program,
    variant: &'static Variant,
    netns: Netns,
    kubeconfig: PathBuf,
    /// Whether the Node object has a zone.
    pub has_zone: bool,
    /// Folder with what the restores of deltaproxy do next, where faults are caused.
    spoiled: Option<TempDir>,
}

impl Node {
    /// Makes the namespace and joins it to the control plane as host number `host`.
    pub fn new(
        control: &ControlPlane,
        program: Program,
        variant: &'static Variant,
        host: u8,
    ) -> Self {
        let netns = Netns::new(if program.is_deltaproxy() {
            "ours"
        } else {
            "theirs"
        });
        control.attach(&netns, host);
        netns.forward();
        variant.prepare(&netns);
        Self {
            daemon: None,
            program,
            variant,
            netns,
            kubeconfig: control.kubeconfig(),
            has_zone: true,
            spoiled: None,
        }
    }

    /// Starts the program, or starts it anew. Rules stay as they are meanwhile.
    pub fn restart(&mut self) {
        drop(self.daemon.take());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut args = vec![format!("--hostname-override={}", objects::NODE)];
        args.extend(COMMON_FLAGS.map(str::to_owned));
        if let Some(config) = self.variant.config {
            args.push(format!("--config={}", self.write(config, &folder)));
        } else {
            args.push(format!("--kubeconfig={}", self.kubeconfig.display()));
            args.extend(self.flags());
            // Each change is to be seen by itself, as far as possible.
            args.push("--iptables-min-sync-period=0s".to_owned());
            // In a large cluster kube-proxy looks for stale chains once in this time.
            args.push("--iptables-sync-period=1s".to_owned());
        }
        if self.program.is_deltaproxy() {
            args.extend(self.variant.own_flags.iter().map(ToString::to_string));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let backend = self.variant.backend;
        let start = if self.has_zone {
            Daemon::start_in_zone
        } else {
            Daemon::start_program
        };
        let daemon = match &self.spoiled {
            Some(control) => {
                let bin = spoilable_programs(backend, control);
                let args = [&args[..], &["--verify-interval=1s"]].concat();
                Daemon::start_with(&self.program, &self.netns, bin, &args)
            }
            None => start(&self.program, &self.netns, backend, &args),
        };
        self.daemon = Some(daemon.keeping(folder));
    }

    /// Flags of the variant, as the program accepts them.
    fn flags(&self) -> Vec<String> {
        let flags = self.variant.flags.iter();
        if self.program.is_deltaproxy() {
            return flags.map(ToString::to_string).collect();
        }
        let release = Release::of("kube-proxy");
        flags.map(|flag| release.spelled(flag)).collect()
    }

    /// Prepares the node for faults: has to be called before the program starts.
    pub fn expect_faults(&mut self) {
        self.spoiled = Some(tempfile::tempdir().expect("a temporary folder"));
    }

    /// Makes this many restores of each family do that instead of restoring.
    pub fn spoil_restores(&self, count: usize, script: &str) {
        let folder = self.spoiled.as_ref().expect("a node with faults").path();
        fs::write(folder.join("script"), script).expect("write a script");
        for family in ["iptables", "ip6tables"] {
            fs::write(folder.join(family), "x".repeat(count)).expect("write a number");
        }
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(daemon) = &self.daemon {
            let id = i32::try_from(daemon.id()).expect("a pid");
            kill(Pid::from_raw(id), signal).expect("send a signal");
        }
    }

    /// Does something while the program is stopped, so that it repairs nothing meanwhile. Stops it
    /// between two restores: one that it has started would go on, and change rules.
    pub fn with_daemon_stopped(&self, work: impl FnOnce()) {
        eventually(PATIENCE, || {
            self.signal(Signal::SIGSTOP);
            // A thread may be starting a program at this moment.
            thread::sleep(Duration::from_millis(10));
            let children = self.daemon.as_ref().map(|daemon| children(daemon.id()));
            let children = children.unwrap_or_default();
            if !children.is_empty() {
                self.signal(Signal::SIGCONT);
            }
            ensure(children.is_empty(), || {
                format!("the program never stops without children: {children:?}")
            })
        });
        work();
        self.signal(Signal::SIGCONT);
    }

    /// Kills the program.
    pub fn kill(&mut self) {
        drop(self.daemon.take());
    }

    /// Runs kube-proxy next to the program, with ports of its own, and kills it after this time.
    pub fn run_kube_proxy_for(&self, time: Duration) {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let hostname = format!("--hostname-override={}", objects::NODE);
        let mut args = COMMON_FLAGS.to_vec();
        args.extend([
            "--healthz-bind-address=127.0.0.1:20256",
            "--metrics-bind-address=127.0.0.1:20249",
            &kubeconfig,
            &hostname,
        ]);
        args.extend(self.variant.flags);
        let bin = backend_programs(self.variant.backend);
        let mut visitor = Daemon::spawn(&Program::kube_proxy(), &self.netns, bin, &args);
        thread::sleep(time);
        visitor.assert_running();
    }

    /// The process id of the program, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.daemon.as_ref().map(Daemon::id)
    }

    /// Path of the lock of legacy iptables there.
    pub fn xtables_lock(&self) -> PathBuf {
        self.netns.xtables_lock()
    }

    /// Runs a program there.
    pub fn run(&self, program: &str, args: &[&str]) {
        run(self.netns.command(program).args(args));
    }

    /// Puts another program in the place of this one, which ends; the rules stay.
    pub fn exchange(&mut self, program: Program) {
        drop(self.daemon.take());
        self.program = program;
        self.restart();
    }

    fn write(&self, config: &str, folder: &TempDir) -> String {
        let path = folder.path().join("config.yaml");
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n\
             kind: KubeProxyConfiguration\n\
             clientConnection: {{kubeconfig: {}}}\n{config}",
            self.kubeconfig.display()
        );
        fs::write(&path, text).expect("write a configuration");
        path.display().to_string()
    }

    /// The variant it runs.
    pub fn variant(&self) -> &'static Variant {
        self.variant
    }

    /// Who programs this node, for reports.
    pub fn who(&self) -> &'static str {
        if self.program.is_deltaproxy() {
            "deltaproxy"
        } else {
            "kube-proxy"
        }
    }

    /// The last lines of the program's log.
    pub fn log(&self) -> String {
        self.daemon.as_ref().map(Daemon::log).unwrap_or_default()
    }

    /// The kernel's rules as they are now.
    pub fn saved(&self, family: Family) -> String {
        saved(&self.netns, self.variant.backend, family)
    }

    /// Whether packets to 127.0.0.0/8 are let in from outside, which rules alone do not show.
    pub fn route_localnet(&self) -> String {
        let path = "/proc/sys/net/ipv4/conf/all/route_localnet";
        let read = || fs::read_to_string(path).expect("a setting of the kernel");
        self.netns.enter(read).trim().to_owned()
    }

    /// Whether all `signs` are in the rules; the error says who does not show them.
    pub fn shows(&mut self, family: Family, signs: &[String]) -> Result<(), String> {
        self.assert_running();
        let saved = self.saved(family);
        ensure(signs.iter().all(|sign| saved.contains(sign)), || {
            let (who, name, log) = (self.who(), self.variant.name, self.log());
            format!("variant `{name}`, {family:?}: {who} does not show {signs:?}\n{log}")
        })
    }

    /// Empties all tables and deletes all chains, each table at once.
    pub fn flush(&self) {
        for family in Family::ALL {
            self.restore(family, &[], EMPTY);
        }
    }

    /// Gives a payload to the restore program, as another program would.
    pub fn restore(&self, family: Family, flags: &[&str], payload: &str) {
        restore(&self.netns, self.variant.backend, family, flags, payload);
    }

    /// Fails the test when the program has ended.
    #[track_caller]
    pub fn assert_running(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            daemon.assert_running();
        }
    }

    /// Whether the program has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.daemon
            .as_mut()
            .is_some_and(|daemon| daemon.exited().is_some())
    }

    /// Does something to the kernel's rules with `iptables`, as a neighbour would.
    pub fn iptables(&self, args: &str) {
        let program = real_program(self.variant.backend, "iptables");
        let mut command = self.netns.command(program);
        run(command.arg("-w").args(args.split_whitespace()));
    }

    /// How many full syncs the program has made, both families together.
    pub fn full_syncs(&self) -> u64 {
        self.metric("kubeproxy_sync_full_proxy_rules_duration_seconds_count")
    }

    /// The sum of a metric's samples.
    pub fn metric(&self, name: &str) -> u64 {
        let metrics = eventually(PATIENCE, || {
            let (_, body) = http::get(&self.netns, Daemon::METRICS, "/metrics")?;
            Ok(body)
        });
        http::count(&metrics, name)
    }
}

/// The backend's programs; restores do what the files in `control` say, as often as they say.
fn spoilable_programs(backend: Backend, control: &TempDir) -> TempDir {
    let bin = backend_programs(backend);
    for family in ["iptables", "ip6tables"] {
        let name = format!("{family}-restore");
        let folder = control.path().display();
        let script = format!(
            "left=$(cat {folder}/{family} 2>/dev/null)\n\
             if [ -n \"$left\" ]; then printf %s \"${{left#x}}\" >{folder}/{family}; \
             . {folder}/script; fi\nexec $REAL \"$@\""
        );
        replace_program(&bin, backend, &name, &script);
    }
    bin
}
