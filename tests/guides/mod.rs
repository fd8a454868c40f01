//! Guides in `deploy/docs`: each of their commands is run, in a cluster with a real API server and
//! kube-proxy's objects of a real kubeadm.

mod cluster;
mod mounted;
mod page;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::daemon::{Daemon, wait_until_ok};
use crate::support::rules::Family;
use crate::support::wait::{PATIENCE, eventually};
use crate::support::{http, needs, objects};
use cluster::Cluster;
use mounted::configuration_is_mounted;
use page::Page;

const IMAGE: &str = "registry.example.com/deltaproxy/deltaproxy:v0.1.0";
const KUBE_PROXY_IMAGE: &str = "registry.k8s.io/kube-proxy:v1.37.2";

/// Returns the specification of the Pods of a DaemonSet.
fn pod(set: &Value) -> &Value {
    &set["spec"]["template"]["spec"]
}

fn image(set: &Value) -> &str {
    pod(set)["containers"][0]["image"].as_str().unwrap()
}

#[test]
fn replace() {
    needs!(Clients);
    let (cluster, mut page) = (Cluster::new(), Page::read("replace.md"));
    assert_eq!(cluster.run_all(&page.take("")), ["mode: iptables\n"]);
    let commands = page.take("kubeadm and kind");
    for command in &commands {
        let printed = cluster.run(command);
        let set = cluster.daemon_set("kube-proxy");
        if command.starts_with("kubectl diff") {
            assert!(
                printed.contains(&format!("+        image: {IMAGE}")),
                "{printed}"
            );
            assert_eq!(image(&set), KUBE_PROXY_IMAGE);
        }
        if command.ends_with("least-privilege") && command.contains("apply") {
            has_few_privileges(&set);
        }
        if command.starts_with("kubectl apply") && command.ends_with("metrics-open") {
            has_open_metrics(&set);
        }
        configuration_is_mounted(&cluster, "kube-proxy");
        assert!(
            image(&set) == IMAGE || !command.contains(" image "),
            "{command}"
        );
    }

    cluster.install_kube_proxy();
    let commands = page.take("EKS");
    cluster.run_all(&commands);
    assert_eq!(image(&cluster.daemon_set("kube-proxy")), IMAGE);

    // Neither k3s nor such a cluster has the DaemonSet. Next to it, the chart adds no proxy.
    let commands = page.take("k3s");
    let error = cluster.fail(&commands[0]);
    assert!(
        error.contains("canary: false would run two proxies"),
        "{error}"
    );
    cluster.run("kubectl -n kube-system delete daemonset kube-proxy");
    cluster.run_all(&commands);
    assert_eq!(image(&cluster.daemon_set("deltaproxy")), IMAGE);
    configuration_is_mounted(&cluster, "deltaproxy");
    cluster.run("helm uninstall deltaproxy --namespace kube-system");
    cluster.run_all(&page.take("Clusters without kube-proxy"));
    assert_eq!(image(&cluster.daemon_set("deltaproxy")), IMAGE);
    page.end();
}

fn has_few_privileges(set: &Value) {
    let container = &pod(set)["containers"][0];
    assert_eq!(container["securityContext"]["privileged"], false);
    assert_eq!(container["command"][0], "/usr/local/bin/deltaproxy");
    assert_eq!(pod(set)["containers"].as_array().unwrap().len(), 1);
    assert_eq!(pod(set)["initContainers"][0]["image"], IMAGE);
}

/// With the file of the cluster, as it is.
fn has_open_metrics(set: &Value) {
    let flags = pod(set)["containers"][0]["command"].to_string();
    let open = "\"--metrics-bind-address-override=0.0.0.0:10249\"";
    assert!(flags.contains(open), "{flags}");
    assert_eq!(pod(set)["volumes"][0]["configMap"]["name"], "kube-proxy");
}

/// GNU sed alone has `\|`, `\+` and `\?` in basic expressions, and `-i` without a suffix.
#[test]
fn sed_of_the_guides_is_that_of_posix() {
    let folder = format!("{}/deploy/docs", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        for line in text.lines().filter(|line| line.contains("| sed ")) {
            let (_, script) = line.split_once("| sed ").unwrap();
            let only_gnu = ["\\|", "\\+", "\\?", "-i"].into_iter();
            let found: Vec<&str> = only_gnu.filter(|one| script.contains(one)).collect();
            assert_eq!(found, [""; 0], "{}: {line}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen}");
}

#[test]
fn canary() {
    needs!(Clients);
    let (cluster, mut page) = (Cluster::new(), Page::read("canary.md"));
    for (name, value) in [
        ("plain", None),
        ("other", Some("disabled")),
        ("empty", Some("")),
    ] {
        let mut node = objects::node("10.200.0.9", "fd00:200::9");
        node["metadata"]["name"] = name.into();
        if let Some(value) = value {
            node["metadata"]["labels"]["deltaproxy"] = value.into();
        }
        cluster.lab.control.api().apply(&node);
    }
    let before = cluster.daemon_set("kube-proxy");
    assert_eq!(before["spec"]["updateStrategy"]["type"], "RollingUpdate");
    cluster.run_all(&page.take(""));
    selects_each_node_once(&cluster);
    configuration_is_mounted(&cluster, "deltaproxy");
    restarts_no_pod(&cluster);
    let ended = page.take("End it");
    cluster.run_all(&ended);
    // The same template as before, so that the Pods are up to date.
    assert_eq!(cluster.daemon_set("kube-proxy")["spec"], before["spec"]);
    assert_eq!(deltaproxy_nodes(&cluster), [""; 0]);

    let with_helm = page.take("With Helm");
    let error = cluster.fail(&with_helm[1]);
    assert!(
        error.contains("canary: true would run two proxies"),
        "{error}"
    );
    cluster.run_all(&with_helm);
    selects_each_node_once(&cluster);
    configuration_is_mounted(&cluster, "deltaproxy");
    cluster.run("helm uninstall deltaproxy --namespace kube-system");
    cluster.run("kubectl label node node1 deltaproxy-");
    canary_on_eks(&cluster, &page.take("On EKS"));
    page.end();
}

fn canary_on_eks(cluster: &Cluster, commands: &[String]) {
    // An affinity of its own, which stays, and the same contents in other ConfigMaps.
    cluster.become_eks();
    cluster.run("kubectl label node node1 other kubernetes.io/arch=arm64");
    let terms = json!([{"matchExpressions": [
        {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["riscv64"]},
    ]}]);
    let affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }});
    let set = cluster.daemon_set("kube-proxy");
    let change = json!({"spec": {"template": {"spec": {"affinity": affinity}}}});
    cluster.lab.control.api().merge(&set, &change);
    assert_eq!(selected(cluster, "kube-proxy").len(), 4, "{set}");
    let (chart, overlay): (Vec<String>, Vec<String>) = commands
        .iter()
        .cloned()
        .partition(|line| line.starts_with("helm"));
    cluster.run_all(&overlay);
    selects_each_node_once(cluster);
    configuration_is_mounted(cluster, "deltaproxy");
    restarts_no_pod(cluster);
    let set = cluster.daemon_set("kube-proxy");
    assert!(set.to_string().contains("riscv64"), "{set}");
    cluster.run("kubectl delete -k deploy/kustomize/overlays/canary-eks");
    let error = cluster.fail(
        "helm install deltaproxy deploy/helm/deltaproxy --namespace kube-system --set canary=true",
    );
    assert!(error.contains("has no key `config.conf`"), "{error}");
    cluster.run_all(&chart);
    selects_each_node_once(cluster);
    configuration_is_mounted(cluster, "deltaproxy");
}

/// The template of kube-proxy has changed, and its Pods on other nodes are not to follow.
#[track_caller]
fn restarts_no_pod(cluster: &Cluster) {
    let set = cluster.daemon_set("kube-proxy");
    assert_eq!(set["spec"]["updateStrategy"]["type"], "OnDelete", "{set}");
}

/// The labeled node belongs to deltaproxy, all others to kube-proxy.
#[track_caller]
fn selects_each_node_once(cluster: &Cluster) {
    assert_eq!(selected(cluster, "deltaproxy"), ["node1"]);
    assert_eq!(selected(cluster, "kube-proxy"), ["empty", "other", "plain"]);
    assert_eq!(deltaproxy_nodes(cluster), ["node1"]);
}

fn deltaproxy_nodes(cluster: &Cluster) -> Vec<String> {
    let printed = cluster.run("kubectl get nodes -l deltaproxy=enabled -o name");
    let names = printed.lines().map(|line| line.replace("node/", ""));
    names.collect()
}

/// Names of the nodes that a DaemonSet selects, by its affinity.
fn selected(cluster: &Cluster, name: &str) -> Vec<String> {
    let set = cluster.daemon_set(name);
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let terms = pod(&set).pointer(&format!("{required}/nodeSelectorTerms"));
    let terms = terms.and_then(Value::as_array);
    let nodes: Value = serde_json::from_str(&cluster.run("kubectl get nodes -o json")).unwrap();
    let nodes = nodes["items"].as_array().unwrap();
    let is_selected = |node: &&Value| {
        let labels = node["metadata"]["labels"].clone();
        let labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap();
        terms.is_none_or(|terms| terms.iter().any(|term| matches(term, &labels)))
    };
    let names = nodes.iter().filter(is_selected);
    let names = names.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned());
    names.collect()
}

/// Reports whether all expressions of a term match. A missing label is in no list.
///
/// Upstream: k8s.io/component-helpers/scheduling/corev1/nodeaffinity (v1.37)
fn matches(term: &Value, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term["matchExpressions"].as_array().unwrap();
    expressions.iter().all(|expression| {
        let label = labels.get(expression["key"].as_str().unwrap());
        let values = expression["values"].as_array().unwrap();
        let is_in = label.is_some_and(|label| values.iter().any(|value| value == label));
        match expression["operator"].as_str().unwrap() {
            "In" => is_in,
            "NotIn" => !is_in,
            other => panic!("operator {other}"),
        }
    })
}

#[test]
fn upgrade() {
    needs!(Clients);
    let (cluster, mut page) = (Cluster::new(), Page::read("upgrade.md"));
    let commands = page.take("The cluster, with kubeadm");
    let check = commands.last().unwrap();
    let replace = "kubectl apply -k deploy/kustomize/overlays/least-privilege";
    cluster.run(replace);
    let replaced = cluster.daemon_set("kube-proxy");
    let which = cluster.run(check);
    assert!(
        which.ends_with(&format!("kube-proxy   {IMAGE}\n")),
        "{which}"
    );

    // Without a flag, kube-proxy is back, and nothing of the replacement is left.
    cluster.run("kubeadm upgrade node");
    let which = cluster.run(check);
    let expected = format!("kube-proxy   {KUBE_PROXY_IMAGE}\n");
    assert!(which.ends_with(&expected), "{which}");
    let set = cluster.daemon_set("kube-proxy");
    assert_eq!(pod(&set)["initContainers"], Value::Null);
    let context = &pod(&set)["containers"][0]["securityContext"];
    assert_eq!(*context, json!({"privileged": true}));

    cluster.run(replace);
    for command in &commands {
        cluster.run(command);
        let set = cluster.daemon_set("kube-proxy");
        assert_eq!(image(&set), IMAGE, "{command}");
    }
    // The patch makes of kubeadm's object what `kubectl apply` makes of it.
    assert_eq!(pod(&cluster.daemon_set("kube-proxy")), pod(&replaced));
    cluster.disable_kube_proxy();
    cluster.run("kubeadm upgrade node");
    assert_eq!(image(&cluster.daemon_set("kube-proxy")), IMAGE);
    of_deltaproxy(&cluster, page);
}

fn of_deltaproxy(cluster: &Cluster, mut page: Page) {
    let commands = page.take("deltaproxy");
    let (chart, overlay): (Vec<_>, Vec<_>) = commands
        .into_iter()
        .partition(|line| line.starts_with("helm"));
    cluster.run_all(&overlay);
    cluster.run("kubectl -n kube-system delete daemonset kube-proxy");
    cluster.run("helm install deltaproxy deploy/helm/deltaproxy --namespace kube-system");
    cluster.run_all(&chart);
    page.end();
}

/// Pages of which each leaves a cluster in which the next can begin.
#[test]
fn a_cluster_is_rolled_back_verified_and_cleaned_up() {
    needs!(Clients);
    let cluster = Cluster::new();
    rollback(&cluster);
    other_proxies(&cluster);
    verify(&cluster);
    uninstall(&cluster);
    the_chart_checks_the_config_map(&cluster);
}

fn rollback(cluster: &Cluster) {
    let mut page = Page::read("rollback.md");
    let before = cluster.daemon_set("kube-proxy");
    let keep = Page::read("replace.md").take("kubeadm and kind");
    cluster.run(&keep[0]);
    // In every way in which fields can get there.
    for overlay in [
        "kubeadm-replace",
        "least-privilege",
        "metrics-open",
        "least-privilege --server-side --force-conflicts",
    ] {
        cluster.run(&format!(
            "kubectl apply -k deploy/kustomize/overlays/{overlay}"
        ));
        assert_eq!(image(&cluster.daemon_set("kube-proxy")), IMAGE);
        let commands = Page::read("rollback.md").take("");
        cluster.run_all(&commands[..2]);
        let after = cluster.daemon_set("kube-proxy");
        assert_eq!(after["spec"], before["spec"], "{overlay}");
    }
    cluster.run("kubectl apply -k deploy/kustomize/overlays/least-privilege");
    let commands = page.take("");
    cluster.run_all(&commands[2..]);
    assert_eq!(cluster.daemon_set("kube-proxy")["spec"], before["spec"]);
    assert_eq!(commands.len(), 5);
    page.end();
}

/// From mode nftables; the other ways are outside of a test's reach.
fn other_proxies(cluster: &Cluster) {
    let mut page = Page::read("other-proxies.md");
    let commands = page.take("From mode nftables");
    // The same way leads to mode nftables first.
    cluster.run(&commands[0].replace("iptables", "nftables"));
    assert_eq!(cluster.run(&commands[1]), "mode: nftables\n");
    assert_eq!(cluster.run_all(&commands)[1], "mode: iptables\n");
    let config = cluster.run("kubectl -n kube-system get configmap kube-proxy -o yaml");
    assert!(config.contains("\n    clusterCIDR: "), "{config}");
    page.end();
}

fn verify(cluster: &Cluster) {
    let mut page = Page::read("verify.md");
    let commands = page.take("");
    let which = cluster.run(&commands[0]);
    assert!(
        which.ends_with(&format!("kube-proxy   {KUBE_PROXY_IMAGE}\n")),
        "{which}"
    );
    cluster.run("kubectl apply -k deploy/kustomize/overlays/least-privilege");
    let web = objects::service("web", json!({"clusterIP": "10.96.0.80"}));
    let slice = objects::slice(&web, &["10.4.0.11"]);
    cluster.lab.control.api().apply_all(&[web, slice]);
    let _daemon = cluster.start_deltaproxy();
    wait_until_ok(&cluster.lab.node, "/healthz");
    cluster.lab.wait_for_text(Family::V4, "10.4.0.11:8080");
    // A Pod of the DaemonSet, and one as of RKE2.
    for (name, labels) in [
        ("kube-proxy-abcde", json!({"k8s-app": "kube-proxy"})),
        ("kube-proxy-node1", json!({"component": "kube-proxy"})),
    ] {
        let containers = json!([{"name": "kube-proxy", "image": IMAGE}]);
        cluster.lab.control.api().apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "kube-system", "name": name, "labels": labels},
            "spec": {"nodeName": objects::NODE, "containers": containers},
        }));
    }
    let printed = cluster.run_all(&commands);
    let expected = [
        format!("kube-proxy   {IMAGE}\n"),
        format!("kube-proxy-node1   {IMAGE}\n"),
        "deltaproxy_".to_owned(),
        String::new(),
        "web:http".to_owned(),
        "kube-proxy-abcde".to_owned(),
        "\"lastUpdated\"".to_owned(),
    ];
    assert_eq!(commands.len(), expected.len());
    for (printed, expected) in printed.iter().zip(expected) {
        assert!(printed.contains(&expected), "{expected}: {printed}");
    }
    page.end();
}

fn uninstall(cluster: &Cluster) {
    let mut page = Page::read("uninstall.md");
    cluster.run("kubectl apply -k deploy/kustomize/overlays/least-privilege");
    let web = objects::service("web", json!({"clusterIP": "10.96.0.80"}));
    cluster.lab.control.api().apply(&web);
    let mut daemon = cluster.start_deltaproxy();
    eventually(PATIENCE, || {
        http::get(&cluster.lab.node, Daemon::HEALTH, "/livez")
    });
    cluster.lab.wait_for_text(Family::V4, "default/web:http");
    let commands = page.take("");
    cluster.run(&commands[0]);
    cluster.run("helm install deltaproxy deploy/helm/deltaproxy --namespace kube-system");
    cluster.run(&commands[1]);
    let sets = cluster.run("kubectl -n kube-system get daemonset -o name");
    assert_eq!(sets, "");
    daemon.terminate(PATIENCE);
    let planned = cluster.run(&commands[2]);
    assert!(planned.contains("-X KUBE-SERVICES"), "{planned}");
    assert!(cluster.lab.rules(Family::V4).contains("default/web:http"));
    cluster.run(&commands[3]);
    for family in Family::ALL {
        let rules = cluster.lab.rules(family);
        assert!(!rules.contains("KUBE-SERVICES"), "{rules}");
    }
    cluster.run(&commands[4]);
    let pods =
        "kubectl -n kube-system get pods -l app.kubernetes.io/managed-by=kubectl-debug -o json";
    let pods: Value = serde_json::from_str(&cluster.run(pods)).unwrap();
    let spec = &pods["items"][0]["spec"];
    let container = &spec["containers"][0];
    assert_eq!(container["command"], json!(["deltaproxy", "cleanup"]));
    assert_eq!(container["image"], IMAGE);
    assert_eq!(container["securityContext"]["privileged"], true);
    assert_eq!(
        (&spec["hostNetwork"], &spec["nodeName"]),
        (&json!(true), &json!("node1"))
    );
    let logs = cluster.run(&commands[5]);
    assert!(logs.starts_with("pod/node-debugger-node1-"), "{logs}");
    cluster.run(&commands[6]);
    assert_eq!(commands.len(), 7);
    page.end();
}

/// A ConfigMap with which no Pod could start fails before anything is installed.
fn the_chart_checks_the_config_map(cluster: &Cluster) {
    let install = "helm install deltaproxy deploy/helm/deltaproxy --namespace kube-system";
    let error = cluster.fail(&format!("{install} --set config.existingConfigMap=absent"));
    let title = "config.existingConfigMap: ConfigMap kube-system/";
    assert!(
        error.contains(&format!("{title}absent does not exist")),
        "{error}"
    );
    for (field, expected) in [
        ("mode: nftables", "has mode `nftables`"),
        (
            "healthzBindAddress: 0.0.0.0:9",
            "has healthzBindAddress `0.0.0.0:9`",
        ),
    ] {
        cluster.run(&format!(
            "kubectl -n kube-system create configmap other --from-literal=config.conf='{field}'"
        ));
        let error = cluster.fail(&format!("{install} --set config.existingConfigMap=other"));
        assert!(
            error.contains(&format!("{title}other {expected}")),
            "{error}"
        );
        cluster.run("kubectl -n kube-system delete configmap other");
    }
    assert_eq!(
        cluster.run("kubectl -n kube-system get daemonset -o name"),
        ""
    );
    cluster.run(install);
}
