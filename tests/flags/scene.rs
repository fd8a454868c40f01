//! One small cluster in a folder, in which every flag that shapes rules has something to shape, and
//! the program run on it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::program::{PROGRAM, Ran};

/// The node is in a source range, one Service is local, and one has no address.
const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: node1}
spec: {podCIDRs: [10.4.1.0/24]}
status: {addresses: [{type: InternalIP, address: 10.200.0.2}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  externalIPs: [198.51.100.9]
  loadBalancerSourceRanges: [10.200.0.0/16]
  ports: [{port: 80, nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.10}]}}
---
apiVersion: v1
kind: Service
metadata: {name: near}
spec: {clusterIP: 10.96.0.11, internalTrafficPolicy: Local, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: anywhere}
spec: {type: NodePort, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.4.1.11], nodeName: node1}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: near-1, labels: {kubernetes.io/service-name: near}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.4.1.12], nodeName: node1}, {addresses: [10.4.2.12], nodeName: node2}]
";

/// What a configuration file needs before it says anything.
pub const HEADER: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
";

/// For programs that serve nothing, so that many may run beside each other.
pub const UNSERVED: [&str; 2] = ["--metrics-bind-address=off", "--healthz-bind-address=off"];

/// The cluster, in a folder below this one.
pub struct Folder(TempDir);

impl Folder {
    /// Written.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("cluster")).unwrap();
        fs::write(folder.path().join("cluster/all.yaml"), CLUSTER).unwrap();
        Self(folder)
    }

    /// Where there is room for more.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The program with these arguments, to the end.
pub fn run(args: &[&str]) -> Ran {
    Ran::of(&mut command(args))
}

/// What it writes to stderr when it ends at once, having read its flags.
#[track_caller]
pub fn said(flags: &[&str]) -> String {
    let output = run(&[&["run", "--write-config-to=/dev/null"], flags].concat());
    assert!(output.is_success(), "{flags:?}: {output:#?}");
    output.stderr
}

/// Killed by the clock, should a test fail to.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["60", PROGRAM]).args(args);
    command.stdin(Stdio::null()).env_remove("RUST_LOG");
    // Tests that run in a Pod do not use its cluster.
    command.env_remove("KUBERNETES_SERVICE_HOST");
    command
}

/// What a dry run of the cluster would restore for IPv4 at first.
#[track_caller]
pub fn rules(folder: &Folder, flags: &[&str]) -> String {
    let cluster = folder.path().join("cluster");
    let cluster = format!("--manifests={}", cluster.display());
    let args = [
        &["--hostname-override=node1", &cluster],
        &UNSERVED[..],
        flags,
    ];
    let child = dry_run(&args.concat()).stdout(Stdio::piped()).spawn();
    let mut child = Ended(child.unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let lines = lines.map(Result::unwrap);
    let mut text = String::new();
    // Filter, then nat; the other family may come before, after, or not at all.
    let mut tables = 0;
    for line in lines.skip_while(|line| line != "# IPv4 restore") {
        tables += usize::from(line == "COMMIT");
        text.push_str(&line);
        text.push('\n');
        if tables == 2 {
            return text;
        }
    }
    panic!("{flags:?}: it ended after\n{text}");
}

/// A dry run.
pub fn dry_run(flags: &[&str]) -> Command {
    let mut command = command(&[&["run", "--dry-run"], flags].concat());
    command.stderr(Stdio::null());
    command
}

/// A process that does not outlive its test.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // `timeout` passes on no SIGKILL.
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}
