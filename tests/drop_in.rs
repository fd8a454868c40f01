//! The command lines and files that clusters run kube-proxy with, as they are, but for where the
//! kubeconfig is: only the program is another.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::daemon::{Backend, Daemon, backend_programs, wait_until_ok};
use crate::support::lab::Lab;
use crate::support::process::Process;
use crate::support::rules::Family;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects};
use serde_json::json;
use tempfile::TempDir;

/// Where all of them have their kubeconfig, more or less.
const KUBECONFIGS: [&str; 3] = [
    "/var/lib/kube-proxy/kubeconfig.conf",
    "/var/lib/kube-proxy/kubeconfig",
    "/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig",
];

/// A way to run it.
struct Cluster {
    flags: &'static [&'static str],
    /// What `--config` names.
    file: Option<&'static str>,
    /// Where Pods are, if it says.
    pods: Option<&'static str>,
}

const KUBEADM: Cluster = Cluster {
    flags: &["--hostname-override=node1"],
    file: Some(include_str!("config/kubeadm.yaml")),
    pods: Some("10.244.0.0/16"),
};

const KIND: Cluster = Cluster {
    flags: &["--hostname-override=node1"],
    file: Some(include_str!("config/kind.yaml")),
    pods: Some("10.244.0.0/16"),
};

const EKS: Cluster = Cluster {
    flags: &["--v=2", "--hostname-override=node1"],
    file: Some(include_str!("config/eks.yaml")),
    pods: None,
};

const K3S: Cluster = Cluster {
    flags: &[
        "--cluster-cidr=10.42.0.0/16",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-close-wait=0s",
        "--conntrack-tcp-timeout-established=0s",
        "--healthz-bind-address=127.0.0.1",
        "--hostname-override=node1",
        "--kubeconfig=/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig",
        "--proxy-mode=iptables",
    ],
    file: None,
    pods: Some("10.42.0.0/16"),
};

/// The text with the kubeconfig of `lab`, and without what no namespace may set.
fn placed(text: &str, lab: &Lab) -> String {
    let kubeconfig = lab.control.proxy_kubeconfig().display().to_string();
    let found = KUBECONFIGS.iter().find(|path| text.contains(*path));
    let text = found.map_or(text.to_owned(), |path| text.replace(path, &kubeconfig));
    text.replace("maxPerCore: null", "maxPerCore: 0")
        .replace("maxPerCore: 32768", "maxPerCore: 0")
}

/// The program under kube-proxy's name and no other, run by `cluster` on the node.
fn start(lab: &Lab, programs: &TempDir, cluster: &Cluster, folder: &Path) -> Process {
    let kube_proxy = folder.join("kube-proxy");
    symlink(env!("CARGO_BIN_EXE_deltaproxy"), &kube_proxy).unwrap();
    let mut command = lab.node.command("env");
    command.arg(format!(
        "PATH={}:/usr/sbin:/usr/bin",
        programs.path().display()
    ));
    command.arg(kube_proxy);
    command.args(cluster.flags.iter().map(|flag| placed(flag, lab)));
    if let Some(text) = cluster.file {
        let config = folder.join("config.conf");
        fs::write(&config, placed(text, lab)).unwrap();
        command.arg(format!("--config={}", config.display()));
    }
    Process::start("kube-proxy", &mut command, &folder.join("log"))
}

/// Whether traffic to the Service is masqueraded as the cluster has it.
fn fits(rules: &str, cluster: &Cluster) -> bool {
    let of_web = rules
        .lines()
        .filter(|line| line.contains("web:http cluster IP"));
    let masquerades: Vec<&str> = of_web
        .filter(|line| line.ends_with("-j KUBE-MARK-MASQ"))
        .collect();
    match (&masquerades[..], cluster.pods) {
        ([rule], Some(pods)) => rule.contains(&format!("! -s {pods} ")),
        ([], None) => rules.contains("10.4.0.11:8080"),
        _ => false,
    }
}

#[test]
fn clusters_need_another_image_only() {
    needs!(Cluster);
    let lab = Lab::new(Backend::Nft);
    let programs = backend_programs(Backend::Nft);
    let web = objects::service("web", json!({"clusterIP": "10.96.0.80"}));
    let slice = objects::slice(&web, &["10.4.0.11"]);
    lab.control.api().apply_all(&[web, slice]);
    for cluster in [&K3S, &EKS, &KIND, &KUBEADM] {
        let folder = tempfile::tempdir().unwrap();
        let mut proxy = start(&lab, &programs, cluster, folder.path());
        wait_until_ok(&lab.node, "/healthz");
        eventually(PATIENCE, || {
            proxy.assert_running();
            let rules = lab.rules(Family::V4);
            ensure(fits(&rules, cluster), || {
                format!("{:?}: {rules}", cluster.pods)
            })
        });
        let mode = http::get(&lab.node, Daemon::METRICS, "/proxyMode");
        // Of kind, everything is served at addresses of IPv6.
        if cluster.file != KIND.file {
            assert_eq!(mode.unwrap(), (200, "iptables".to_owned()));
        }
        if cluster.file == KUBEADM.file {
            let config = folder.path().join("config.conf");
            let text = fs::read_to_string(&config).unwrap();
            fs::write(&config, text.replace("bindAddressHardFail: false", "")).unwrap();
            let status = eventually(PATIENCE, || proxy.exited().ok_or("it runs".to_owned()));
            assert_eq!(status.code(), Some(1), "{}", proxy.log());
        } else {
            assert!(proxy.terminate(PATIENCE).success(), "{}", proxy.log());
        }
        let log = proxy.log();
        assert!(!log.contains("ERROR"), "{log}");
        assert!(lab.rules(Family::V4).contains("10.4.0.11:8080"));
    }
    a_pod_needs_no_kubeconfig(&lab, &programs);
}

/// A service account where every Pod has it, and the address of the API server as in every
/// Pod.
const AS_A_POD: &str = "\
set -e
mount -t tmpfs none /run
mkdir -p /var/run/secrets/kubernetes.io
ln -s \"$ACCOUNT\" /var/run/secrets/kubernetes.io/serviceaccount
exec \"$@\"
";

fn a_pod_needs_no_kubeconfig(lab: &Lab, programs: &TempDir) {
    let kubeconfig = lab.control.proxy_kubeconfig();
    let text = fs::read_to_string(&kubeconfig).unwrap();
    let between = |start: &str, end: &str| {
        let (_, rest) = text.split_once(start).unwrap();
        rest.split(end).next().unwrap().to_owned()
    };
    let account = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(account.path().join(name), text).unwrap();
    put("token", &between("token: ", "}"));
    put("namespace", "kube-system");
    let authority = kubeconfig.with_file_name("certificates/apiserver.crt");
    put("ca.crt", &fs::read_to_string(authority).unwrap());

    let mut command = lab.node.command("env");
    command.arg(format!("ACCOUNT={}", account.path().display()));
    command.arg(format!(
        "KUBERNETES_SERVICE_HOST={}",
        between("https://", ":")
    ));
    command.arg("KUBERNETES_SERVICE_PORT=6443");
    command.arg(format!(
        "PATH={}:/usr/sbin:/usr/bin:/bin",
        programs.path().display()
    ));
    command.args(["unshare", "--mount", "sh", "-c", AS_A_POD, "sh"]);
    command.args([
        env!("CARGO_BIN_EXE_deltaproxy"),
        "--hostname-override=node1",
    ]);
    command.args(["--conntrack-max-per-core=0", "--cluster-cidr=10.9.0.0/16"]);
    let log = account.path().join("log");
    let mut proxy = Process::start("a Pod", &mut command, &log);
    eventually(PATIENCE, || {
        proxy.assert_running();
        let rules = lab.rules(Family::V4);
        ensure(rules.contains("! -s 10.9.0.0/16 "), || rules)
    });
    wait_until_ok(&lab.node, "/healthz");
}
