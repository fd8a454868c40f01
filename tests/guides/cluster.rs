//! A cluster that kubeadm gave a kube-proxy, and a shell that runs the commands of guides in it.
//!
//! kubectl, kubeadm and helm are the real ones. What takes a kubelet, a controller or another
//! service is replaced: `kubectl exec` runs on the node itself, `kubectl logs` only finds the Pods,
//! `kubectl delete pod` waits for no kubelet, `kubectl rollout status` finds the status that a
//! controller would have written, `kubeadm upgrade` skips the phases that change a node, and `aws`
//! only has its arguments checked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::daemon::{Backend, backend_programs};
use crate::support::kube::binary;
use crate::support::lab::Lab;
use crate::support::objects;
use crate::support::process::{Process, run};

const KUBECTL: &str = r#"
case " $* " in
*" exec "*)
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@";;
*" rollout status "*)
    generation=$($REAL -n kube-system get daemonset "${@: -1}" -o 'jsonpath={.metadata.generation}')
    $REAL -n kube-system patch daemonset "${@: -1}" --subresource=status --type=merge -p "{\"status\":
        {\"observedGeneration\":$generation,\"desiredNumberScheduled\":1,\"currentNumberScheduled\":1,
        \"updatedNumberScheduled\":1,\"numberReady\":1,\"numberAvailable\":1}}" >/dev/null;;
*" delete pod "*)
    # No kubelet confirms that the container has ended.
    exec $REAL "$@" --force --grace-period=0;;
*" logs "*)
    # Without a kubelet there are none; the Pods have to be there.
    exec $REAL -n "$2" get pods "${@:4}" -o name;;
esac
exec $REAL "$@"
"#;

/// On a control plane node of that name, whose folder `/etc` is not that of the host.
const KUBEADM: &str = r#"
phases=preflight,control-plane,kubeconfig,kubelet-config,addon/coredns,post-upgrade
case "$1 $2" in
"upgrade apply") set -- "$@" --skip-phases=$phases,upload-config,bootstrap-token;;
"upgrade node") set -- "$@" --skip-phases=$phases;;
esac
exec unshare --mount --uts bash -ec '
hostname node1
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc
mkdir -p /etc/kubernetes/manifests
touch /etc/kubernetes/manifests/kube-apiserver.yaml
exec "$@"' - $REAL "$@" --kubeconfig "$KUBECONFIG"
"#;

const AWS: &str = r#"
case "$*" in
"eks delete-addon --cluster-name my-cluster --addon-name kube-proxy --preserve") ;;
"eks create-addon --cluster-name my-cluster --addon-name kube-proxy --resolve-conflicts OVERWRITE") ;;
"eks describe-cluster --name my-cluster --query cluster.endpoint --output text") echo "https://10.200.0.1:6443";;
*) exit 1;;
esac
"#;

/// Of the ConfigMap `kubeadm-config`.
const CONFIGURATION: &str = "\
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.2
controlPlaneEndpoint: 10.200.0.1:6443
networking: {podSubnet: 10.4.0.0/14}
";

/// Objects by which `kubeadm upgrade` knows its node, and the versions of the control plane.
const CONTROL_PLANE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: kubelet-config, namespace: kube-system}
data:
  kubelet: |
    apiVersion: kubelet.config.k8s.io/v1beta1
    kind: KubeletConfiguration
---
apiVersion: v1
kind: Pod
metadata:
  name: kube-apiserver-node1
  namespace: kube-system
  labels: {component: kube-apiserver, tier: control-plane}
  annotations:
    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 10.200.0.1:6443
spec:
  nodeName: node1
  containers: [{name: kube-apiserver, image: 'registry.k8s.io/kube-apiserver:v1.37.2'}]
";

/// On the node, with the ConfigMap where a Pod has it.
const ON_NODE: &str = r#"
exec ip netns exec "$NODE" unshare --mount --uts bash -ec '
hostname node1
mount -t tmpfs none /var/lib
cp -r "$POD" /var/lib/kube-proxy
export PATH=$PROGRAMS:$PATH
exec "$@"' - $REAL "$@"
"#;

/// The cluster. `node1` is its node.
pub struct Cluster {
    /// The API server and the node.
    pub lab: Lab,
    /// Working directory: a copy of the folder `deploy`.
    folder: TempDir,
    /// Wrappers of programs, and the node's files.
    bin: TempDir,
    programs: TempDir,
}

impl Cluster {
    /// With kube-proxy's objects as kubeadm writes them.
    pub fn new() -> Self {
        let lab = Lab::new(Backend::Nft);
        lab.control.api().apply(&objects::namespace("kube-system"));
        let (folder, bin) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let deploy = format!("{}/deploy", env!("CARGO_MANIFEST_DIR"));
        run(Command::new("cp").args(["-r", &deploy]).arg(folder.path()));
        let wrap = |name: &str, real: &str, script: &str| {
            let path = bin.path().join(name);
            fs::write(&path, format!("#!/bin/bash\nREAL={real}\n{script}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let real = |name: &str| binary(name).unwrap().display().to_string();
        wrap("kubectl", &real("kubectl"), KUBECTL);
        wrap("kubeadm", &real("kubeadm"), KUBEADM);
        wrap("helm", &real("helm"), "exec $REAL \"$@\"\n");
        wrap("aws", "", AWS);
        wrap("curl", "/usr/bin/curl", ON_NODE);
        wrap("deltaproxy", env!("CARGO_BIN_EXE_deltaproxy"), ON_NODE);
        fs::create_dir(bin.path().join("pod")).unwrap();
        let cluster = Self {
            lab,
            folder,
            bin,
            programs: backend_programs(Backend::Nft),
        };
        // kubeadm takes the address of the default route for that of the API server.
        cluster.lab.control.netns().ip("route add default dev br0");
        cluster.write("control-plane.yaml", CONTROL_PLANE);
        cluster.write("kubeadm.yaml", CONFIGURATION);
        for line in [
            "kubectl -n kube-system create configmap kubeadm-config \
             --from-file=ClusterConfiguration=kubeadm.yaml",
            "kubectl annotate node node1 kubeadm.alpha.kubernetes.io/cri-socket=unix:///run/none",
            "kubectl label node node1 node-role.kubernetes.io/control-plane=",
            "kubectl create -f control-plane.yaml",
        ] {
            cluster.run(line);
        }
        cluster.install_kube_proxy();
        cluster
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Replaces kube-proxy's ConfigMap by those of EKS: other names of objects, keys and files.
    pub fn become_eks(&self) {
        self.write("config", include_str!("../config/eks.yaml"));
        for line in [
            "kubectl -n kube-system get configmap kube-proxy \
             -o jsonpath='{.data.kubeconfig\\.conf}' > kubeconfig",
            "kubectl -n kube-system delete configmap kube-proxy",
            "kubectl -n kube-system create configmap kube-proxy --from-file=kubeconfig",
            "kubectl -n kube-system create configmap kube-proxy-config --from-file=config",
        ] {
            self.run(line);
        }
    }

    /// Makes kubeadm leave kube-proxy's objects alone.
    pub fn disable_kube_proxy(&self) {
        let text = format!("{CONFIGURATION}proxy: {{disabled: true}}\n");
        let change = json!({"data": {"ClusterConfiguration": text}});
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "kube-system", "name": "kubeadm-config"},
        });
        self.lab.control.api().merge(&object, &change);
    }

    /// Writes kube-proxy's objects as `kubeadm init` does.
    ///
    /// Upstream: cmd/kubeadm/app/phases/addons/proxy/proxy.go, `EnsureProxyAddon` (v1.37)
    pub fn install_kube_proxy(&self) {
        self.run("kubeadm init phase addon kube-proxy --config kubeadm.yaml");
    }

    fn command(&self, line: &str) -> Command {
        let pod = self.bin.path().join("pod");
        let mut command = self.lab.control.netns().command("bash");
        let path = std::env::var("PATH").unwrap();
        command
            .args(["-euo", "pipefail", "-c", line])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.bin.path().display()))
            .env("KUBECONFIG", self.lab.control.kubeconfig())
            .env("HOME", self.bin.path())
            .env("NODE", self.lab.node.name())
            .env("POD", pod)
            .env("PROGRAMS", self.programs.path());
        command
    }

    /// Runs a command line, and returns what it printed.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // A difference, not a failure.
        let is_diff = line.starts_with("kubectl diff ") && output.status.code() == Some(1);
        let error = text(&output.stderr);
        assert!(output.status.success() || is_diff, "{line}: {error}");
        text(&output.stdout)
    }

    /// Runs all commands of a section, and returns what they printed.
    #[track_caller]
    pub fn run_all(&self, commands: &[String]) -> Vec<String> {
        commands.iter().map(|line| self.run(line)).collect()
    }

    /// Runs a command line that has to fail, and returns the error.
    #[track_caller]
    pub fn fail(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        assert!(!output.status.success(), "{line}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// A DaemonSet of kube-system, as the API server has it.
    #[track_caller]
    pub fn daemon_set(&self, name: &str) -> Value {
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"namespace": "kube-system", "name": name},
        });
        let read = self.lab.control.api().read(&object);
        read.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Starts the program on the node, with the ConfigMap as a Pod would mount it.
    pub fn start_deltaproxy(&self) -> Process {
        let pod = self.bin.path().join("pod");
        let config = self.run(
            "kubectl -n kube-system get configmap kube-proxy -o jsonpath='{.data.config\\.conf}'",
        );
        // No namespace may set limits of the machine.
        let config = config.replace("maxPerCore: null", "maxPerCore: 0");
        fs::write(pod.join("config.conf"), config).unwrap();
        let kubeconfig = self.lab.control.proxy_kubeconfig();
        fs::copy(kubeconfig, pod.join("kubeconfig.conf")).unwrap();
        let line = "exec deltaproxy run --config=/var/lib/kube-proxy/config.conf \
                    --hostname-override=node1";
        Process::start("deltaproxy", &mut self.command(line), &pod.join("log"))
    }
}
