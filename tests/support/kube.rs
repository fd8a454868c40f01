//! A real control plane: etcd and kube-apiserver in a namespace of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::api::Api;
use super::netns::Netns;
use super::objects::NODE;
use super::process::{Process, run};
use super::wait::{PATIENCE, eventually};

/// Where the server listens for nodes, on the bridge that joins them.
const ADVERTISED: &str = "10.200.0.1";
const TOKEN: &str = "tests-only";
const PROXY_TOKEN: &str = "tests-of-the-proxy-only";

/// Where a program that `tests/run.sh` builds is, or what to do about it. `KUBE_PROXY` and
/// `KUBE_APISERVER` have the paths of programs of another release.
pub fn binary(name: &str) -> Result<PathBuf, String> {
    let variable = name.to_uppercase().replace('-', "_");
    if let Some(path) = std::env::var_os(&variable).filter(|_| variable.starts_with("KUBE_")) {
        return Ok(path.into());
    }
    let folder = std::env::var_os("KUBE_BIN_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/kube"),
        PathBuf::from,
    );
    let path = folder.join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!(
            "no `{}`; tests/run.sh builds it, or set KUBE_BIN_DIR to a folder that has it",
            path.display()
        ))
    }
}

/// A running control plane. Namespaces join its network by [`ControlPlane::attach`].
pub struct ControlPlane {
    // Dropped from top to bottom: the server before its store, processes before their namespace.
    api: Api,
    server: Option<Process>,
    _etcd: Process,
    netns: Netns,
    folder: TempDir,
    /// Flags of the server that not every control plane has.
    server_flags: &'static [&'static str],
}

impl ControlPlane {
    /// Starts both programs and waits until the server is ready.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a control plane whose API server has these flags as well.
    pub fn start_with(server_flags: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let netns = Netns::new("control");
        netns.bridge("br0");
        netns.address("br0", "10.200.0.1/16");
        netns.address("br0", "fd00:200::1/64");
        netns.forward();
        write_credentials(folder.path());
        let etcd = start_etcd(&netns, folder.path());
        let api = Api::new(netns.path(), kubeconfig(TOKEN));
        let mut control = Self {
            api,
            server: None,
            _etcd: etcd,
            netns,
            folder,
            server_flags,
        };
        control.start_server();
        control
    }

    /// The client for making and changing objects.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Another client, which does not wait for the requests of the first.
    #[allow(dead_code, reason = "only one of the benches needs it")]
    pub fn client(&self) -> Api {
        Api::new(self.netns.path(), kubeconfig(TOKEN))
    }

    /// A kubeconfig for programs in attached namespaces.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// The same for a user who may do what a proxy may: the role `system:node-proxier`.
    pub fn proxy_kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig-proxy")
    }

    /// The flags of a proxy on the Node of the tests.
    pub fn flags(&self) -> [String; 2] {
        [
            format!("--kubeconfig={}", self.proxy_kubeconfig().display()),
            format!("--hostname-override={NODE}"),
        ]
    }

    /// Where the control plane runs.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Joins a namespace to the bridge as `eth0` with host number `host` in both families, and
    /// default routes through the control plane. Who had that number before has to be gone.
    pub fn attach(&self, netns: &Netns, host: u8) {
        let port = format!("port{host}");
        self.netns.forget(&port);
        self.netns.join(&port, netns, "eth0");
        self.netns.ip(&format!("link set {port} master br0"));
        netns.address("eth0", &format!("10.200.0.{host}/16"));
        netns.address("eth0", &format!("fd00:200::{host:x}/64"));
        netns.ip("route add default via 10.200.0.1");
        netns.ip("-6 route add default via fd00:200::1");
    }

    /// Starts the API server and waits until it is ready.
    pub fn start_server(&mut self) {
        assert!(self.server.is_none(), "the API server already runs");
        let server = self.server.insert(start_apiserver(
            &self.netns,
            self.folder.path(),
            self.server_flags,
        ));
        eventually(PATIENCE * 2, || {
            server.assert_running();
            self.api.get("/readyz")
        });
    }

    /// Stops the API server alone: the store keeps the objects.
    pub fn stop_server(&mut self) {
        // Killed, not asked: a graceful end waits for open watches.
        drop(self.server.take());
    }
}

fn start_etcd(netns: &Netns, folder: &Path) -> Process {
    let mut command = netns.command(binary("etcd").unwrap_or_else(|why| panic!("{why}")));
    command
        .args(["--unsafe-no-fsync", "--log-level=warn", "--data-dir"])
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls=http://127.0.0.1:2379"])
        .args(["--advertise-client-urls=http://127.0.0.1:2379"])
        .args(["--listen-peer-urls=http://127.0.0.1:2380"]);
    Process::start("etcd", &mut command, &folder.join("etcd.log"))
}

fn start_apiserver(netns: &Netns, folder: &Path, flags: &[&str]) -> Process {
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    let mut command = netns.command(binary("kube-apiserver").unwrap_or_else(|why| panic!("{why}")));
    command
        .args(["--etcd-servers=http://127.0.0.1:2379"])
        .args(["--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/112"])
        .args([
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={ADVERTISED}"),
        ])
        .arg(file("cert-dir", "certificates"))
        .args(["--service-account-issuer=https://kubernetes.default.svc".to_owned()])
        .arg(file("service-account-key-file", "key.pem"))
        .arg(file("service-account-signing-key-file", "key.pem"))
        .arg(file("token-auth-file", "tokens.csv"))
        // As in real clusters: node agents such as ours are privileged pods.
        .arg("--allow-privileged=true")
        .args([
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
        ])
        .args([
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
        ])
        .args(flags);
    Process::start(
        "kube-apiserver",
        &mut command,
        &folder.join("apiserver.log"),
    )
}

fn write_credentials(folder: &Path) {
    let key = folder.join("key.pem");
    run(Command::new("openssl")
        .args(["ecparam", "-name", "prime256v1", "-genkey", "-noout"])
        .arg("-out")
        .arg(&key));
    let tokens =
        format!("{TOKEN},admin,admin,\"system:masters\"\n{PROXY_TOKEN},system:kube-proxy,proxy\n");
    fs::write(folder.join("tokens.csv"), tokens).expect("write the tokens");
    for (name, token) in [("kubeconfig", TOKEN), ("kubeconfig-proxy", PROXY_TOKEN)] {
        fs::write(folder.join(name), kubeconfig(token)).expect("write a kubeconfig");
    }
}

fn kubeconfig(token: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: tests
  cluster: {{server: 'https://{ADVERTISED}:6443', insecure-skip-tls-verify: true}}
users:
- name: tests
  user: {{token: {token}}}
contexts:
- name: tests
  context: {{cluster: tests, user: tests}}
current-context: tests
"
    )
}
