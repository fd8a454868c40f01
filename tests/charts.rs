//! Kustomize overlays and the Helm chart: rendered as committed in `deploy/rendered`, accepted
//! strictly by a real API server, and values that cannot work are named.
//!
//! `UPDATE_GOLDEN=1` writes the files of `deploy/rendered`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::kube::{ControlPlane, binary};
use crate::support::process::run;
use crate::support::program::{PROGRAM, Ran, command};
use crate::support::{Need, machine_has, needs, objects};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const CHART: &str = "deploy/helm/deltaproxy";
const OVERLAYS: [&str; 6] = [
    "canary",
    "canary-eks",
    "kubeadm-replace",
    "least-privilege",
    "metrics-open",
    "shadow",
];
/// Names of the files of values in the folder `ci` of the chart.
const VALUES: [&str; 6] = [
    "canary",
    "default",
    "k3s",
    "monitoring",
    "privileged",
    "shadow",
];

pub(crate) fn program(name: &str, args: &[&str]) -> Ran {
    let path = binary(name).unwrap_or_else(|why| panic!("{why}"));
    Ran::of(Command::new(path).current_dir(ROOT).args(args))
}

fn kustomize(folder: &str) -> Ran {
    program("kubectl", &["kustomize", folder])
}

pub(crate) fn helm(args: &[&str]) -> Ran {
    let template = ["template", "deltaproxy", CHART, "--namespace=kube-system"];
    program("helm", &[&template[..], args].concat())
}

/// Renders the chart with a setting.
#[track_caller]
fn text_of_chart(set: &str) -> String {
    helm(&["--set", set]).success()
}

/// A copy of `deploy/kustomize`, in which files can be written.
fn copy_of_kustomize() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let original = format!("{ROOT}/deploy/kustomize");
    run(Command::new("cp")
        .args(["-r", &original])
        .arg(folder.path()));
    folder
}

/// Names of the files in `deploy/rendered`, and what is rendered now.
fn rendered() -> Vec<(String, String)> {
    let overlays = OVERLAYS.iter().map(|name| {
        let output = kustomize(&format!("deploy/kustomize/overlays/{name}"));
        (format!("kustomize-{name}.yaml"), output.success())
    });
    let charts = VALUES.iter().map(|name| {
        let values = format!("--values={CHART}/ci/{name}-values.yaml");
        (format!("helm-{name}.yaml"), helm(&[&values]).success())
    });
    overlays.chain(charts).collect()
}

pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect()
}

fn daemon_sets(text: &str) -> Vec<Value> {
    let mut documents = documents(text);
    documents.retain(|document| document["kind"] == "DaemonSet");
    documents
}

#[test]
fn rendered_manifests_are_committed() {
    needs!(Clients);
    let folder = Path::new(ROOT).join("deploy/rendered");
    for (name, text) in rendered() {
        let path = folder.join(&name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, committed, "UPDATE_GOLDEN=1 writes {name}");
    }
    let entries = fs::read_dir(folder).unwrap();
    assert_eq!(entries.count(), OVERLAYS.len() + VALUES.len());
}

#[test]
fn rendered_objects_are_accepted_strictly() {
    needs!(Clients);
    let control = ControlPlane::start();
    control.api().apply(&objects::namespace("kube-system"));
    let folder = tempfile::tempdir().unwrap();
    let create = |text: &str| {
        let path = folder.path().join("objects.yaml");
        fs::write(&path, text).unwrap();
        let mut command = control.netns().command(binary("kubectl").unwrap());
        command.arg(format!("--kubeconfig={}", control.kubeconfig().display()));
        command.args(["create", "--dry-run=server", "--validate=strict", "-f"]);
        Ran::of(command.arg(path))
    };
    for (name, rendered) in rendered() {
        // The server has no CRDs of the Prometheus operator.
        let parts = rendered.split("\n---\n");
        let parts = parts.filter(|part| !part.contains("\napiVersion: monitoring.coreos.com/v1\n"));
        let rendered = parts.collect::<Vec<_>>().join("\n---\n");
        let created = create(&rendered).success();
        let count = documents(&rendered).len();
        assert!(count >= 3, "{name}");
        assert_eq!(created.lines().count(), count, "{name}: {created}");
        let misspelled = rendered.replace("hostNetwork:", "hostNetwerk:");
        let error = create(&misspelled).stderr;
        assert!(error.contains("unknown field \"spec.template.spec.hostNetwerk\""));
    }
}

/// Fields that every node agent of this kind needs, whatever it is rendered from.
#[test]
fn daemon_sets_have_what_a_node_needs() {
    needs!(Clients);
    let page = fs::read_to_string(format!("{ROOT}/deploy/docs/resources.md")).unwrap();
    for (name, rendered) in rendered() {
        let sets = daemon_sets(&rendered);
        let [set] = &sets[..] else {
            panic!("{name}: {sets:?}");
        };
        let pod = &set["spec"]["template"]["spec"];
        assert_eq!(pod["hostNetwork"], true, "{name}");
        assert_eq!(pod["priorityClassName"], "system-node-critical", "{name}");
        assert_eq!(pod["tolerations"][0]["operator"], "Exists", "{name}");
        let profile = &pod["securityContext"]["seccompProfile"]["type"];
        assert_eq!(profile, "RuntimeDefault", "{name}");
        let container = &pod["containers"][0];
        let ports: Vec<_> = container["ports"].as_array().unwrap().iter().collect();
        let numbers: Vec<_> = ports.iter().map(|port| &port["containerPort"]).collect();
        let is_shadow = name.contains("shadow");
        if is_shadow {
            assert_eq!(numbers, [10356, 10349], "{name}");
            let app = &set["spec"]["template"]["metadata"]["labels"]["k8s-app"];
            assert_eq!(app, "deltaproxy-shadow", "{name}");
            assert_eq!(set["metadata"]["name"], "deltaproxy-shadow", "{name}");
            assert_eq!(container["command"][2], "--shadow", "{name}");
        } else {
            assert_eq!(numbers, [10256, 10249], "{name}");
        }
        let memory = container["resources"]["requests"]["memory"].as_str();
        let memory = memory.unwrap().replace("Mi", " MiB");
        let sentence = format!("requests {memory}, which is for 1,000");
        assert!(page.contains(&sentence), "{name}: {sentence}");
        assert!(container["resources"]["limits"].is_null(), "{name}");
        has_few_privileges(&name, pod);
        // The lines of the program under kube-proxy's name, as after `kubectl set image`.
        let init = pod["initContainers"].as_array();
        let containers = init.into_iter().flatten().chain([container]);
        for container in containers {
            let command = container["command"].as_array().unwrap();
            assert!(
                command.contains(&"--log-style=klog".into()),
                "{name}: {command:?}"
            );
        }
    }
}

fn has_few_privileges(name: &str, pod: &Value) {
    let context = &pod["containers"][0]["securityContext"];
    assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
    let is_privileged = name.contains("kubeadm-replace") || name.contains("privileged");
    assert_eq!(context["privileged"], is_privileged, "{name}");
    let added = context["capabilities"]["add"].to_string();
    assert_eq!(
        added == "[\"NET_ADMIN\",\"NET_RAW\"]",
        !is_privileged,
        "{name}"
    );
    if name.contains("shadow") {
        assert!(pod["initContainers"].is_null(), "{name}");
        assert!(!pod["volumes"].to_string().contains("modules"), "{name}");
        return;
    }
    let init = &pod["initContainers"][0];
    assert_eq!(
        init["securityContext"]["privileged"] == true,
        !is_privileged
    );
    assert_eq!(
        init["image"] == pod["containers"][0]["image"],
        !is_privileged
    );
}

/// The same alerts, and the same labels of targets, in whatever way they are installed.
#[test]
fn monitoring_is_the_same_in_all_forms() {
    needs!(Clients);
    let of_kind = |text: &str, kind: &str| {
        let documents = documents(text).into_iter();
        let mut found = documents.filter(|document| document["kind"] == kind);
        found.next().unwrap_or_else(|| panic!("no {kind}"))["spec"].clone()
    };
    let file = |name: &str| fs::read_to_string(format!("{ROOT}/deploy/monitoring/{name}")).unwrap();
    let all = kustomize("deploy/monitoring").success();
    let values = format!("--values={CHART}/ci/monitoring-values.yaml");
    let chart = helm(&[&values]).success();
    let ours = "https://example.com/deltaproxy/deploy/docs/alerts.md";
    let chart = chart.replace("https://wiki.test/alerts", ours);
    let rules = of_kind(&file("prometheus-rule.yaml"), "PrometheusRule");
    let pods = &of_kind(&file("pod-monitor.yaml"), "PodMonitor")["podMetricsEndpoints"];
    for installed in [&all, &chart] {
        assert_eq!(of_kind(installed, "PrometheusRule"), rules);
        let monitor = of_kind(installed, "PodMonitor");
        assert_eq!(&monitor["podMetricsEndpoints"], pods);
    }
    let services = of_kind(&file("service-monitor.yaml"), "ServiceMonitor");
    assert_eq!(&services["endpoints"], pods);
    for dashboard in ["fleet.json", "node.json"] {
        assert!(
            all.contains(&format!("\n  {dashboard}: |\n")),
            "{dashboard}"
        );
    }
}

/// Settings that cannot work, and a part of the error.
const BAD: &str = "\
image.repository=deltaproxy                | /image/repository
image.tag=a b                              | /image/tag
image.digest=sha256:12                     | /image/digest
privileges=none                            | /privileges
canry=true                                 | 'canry' not allowed
canary=yes                                 | /canary
shadow=yes                                 | /shadow
shadow=true,canary=true                    | shadow and canary are mutually
shadow=true,monitoring.podMonitor=true     | mutually exclusive
maxUnavailable=0                           | /maxUnavailable
resources.requests.memory=lots             | /resources/requests/memory
priorityClassName=low                      | /priorityClassName
extraArgs[0]=v                             | /extraArgs/0
extraArgs[0]=--sync-cpu-bugdet=20          | /extraArgs/0
extraArgs[0]=--sync-cpu-budget=200         | /extraArgs/0
# Has a field, and would be ignored.
extraArgs[0]=--masquerade-all              | /extraArgs/0
tolerations[0].operator=Exist              | /tolerations/0/operator
extraArgs[0]=--v=2,extraArgs[1]=--config=x | /extraArgs/1
config.existingConfigMap=                  | config.apiServer is required
config.apiServer=a:1                       | /config/apiServer
config.apiServer=https://a:1               | config.apiServer and config.existing
config.kubeProxy.mode=iptables             | config.kubeProxy and config.existing
metricsBindAddress=0.0.0.0:10249           | metricsBindAddress requires
";

/// The same for a ConfigMap that the chart creates.
const BAD_WITH_OWN_CONFIG: &str = "\
metricsBindAddress=0.0.0.0:9                        | /metricsBindAddress
config.kubeProxy.mode=ipvs                          | config.kubeProxy.mode: `ipvs`
monitoring.podMonitor=true                          | monitoring.podMonitor requires metricsBindAddress
monitoring.runbooks=wiki                            | /monitoring/runbooks
config.kubeProxy.hostnameOverride=a                 | config.kubeProxy.hostnameOverride
# The probes would fail.
config.kubeProxy.healthzBindAddress=0.0.0.0:9       | /config/kubeProxy/healthzBindAddress
config.kubeProxy.clusterCidr=10.0.0.0/8             | 'clusterCidr' not allowed
config.kubeProxy.clusterCIDR=10.0.0.0               | /config/kubeProxy/clusterCIDR
config.kubeProxy.conntrack.maxPerCore=many          | /config/kubeProxy/conntrack/maxPerCore
config.kubeProxy.iptables.syncPeriod=30             | /config/kubeProxy/iptables/syncPeriod
config.kubeProxy.nodePortAddresses={all,PRIMARY}    | /config/kubeProxy/nodePortAddresses/1
config.kubeProxy.detectLocalMode=Node               | /config/kubeProxy/detectLocalMode
config.apiServer=https://kubernetes.default.svc:443 | config.apiServer: `https://kubernetes.default.svc:443` is a Service
";

/// Values that work, though they are written in another way than the defaults.
const GOOD: &[&str] = &["resources.requests.cpu=1", "resources.requests.cpu=0.5"];

fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (set, expected) = line.split_once(" | ").unwrap();
        (set.trim_end(), expected)
    })
}

#[test]
fn values_that_cannot_work_are_named() {
    needs!(Clients);
    let own = "config.existingConfigMap=,config.apiServer=https://10.0.0.1:6443";
    let plain = rows(BAD).map(|(set, part)| (set.to_owned(), part));
    let with_own = rows(BAD_WITH_OWN_CONFIG);
    let with_own = with_own.map(|(set, part)| (format!("{own},{set}"), part));
    for (set, expected) in plain.chain(with_own) {
        let output = helm(&["--set", &set]);
        assert!(!output.is_success(), "{set}");
        assert!(output.stderr.contains(expected), "{set}: {output:#?}");
    }
    for set in GOOD.iter().chain([&own]) {
        text_of_chart(set);
    }
}

/// Returns the paths of all fields below a value, except those in sections of other proxy modes.
fn paths(value: &Value, at: &str) -> BTreeSet<String> {
    const OPAQUE: [&str; 4] = ["ipvs", "logging", "nftables", "winkernel"];
    match value {
        Value::Object(fields) if !OPAQUE.contains(&at) => fields
            .iter()
            .flat_map(|(name, value)| paths(value, format!("{at}.{name}").trim_matches('.')))
            .collect(),
        _ => BTreeSet::from([at.to_owned()]),
    }
}

/// Returns the properties of a schema as the fields that they allow.
fn allowed(schema: &Value) -> Value {
    match schema["properties"].as_object() {
        Some(fields) => fields
            .iter()
            .map(|(name, schema)| (name.clone(), allowed(schema)))
            .collect(),
        None => Value::Null,
    }
}

/// The program and the chart know the same fields of the configuration file.
#[test]
fn the_schema_has_every_field_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let flag = format!("--write-config-to={}", file.display());
    Ran::of(&mut command(PROGRAM, &["run", &flag])).success();
    let written: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut known = paths(&written, "");
    // Written only if they are set.
    let if_set = [
        "featureGates",
        "windowsRunAsService",
        "deltaproxy.serviceDispatch",
    ];
    known.extend(if_set.map(str::to_owned));
    known.retain(|path| !path.starts_with("clientConnection."));
    known.insert("clientConnection".to_owned());

    let schema = fs::read_to_string(format!("{ROOT}/{CHART}/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(
        paths(&allowed(&schema["definitions"]["kubeProxy"]), ""),
        known
    );
}

/// Each flag that the chart allows.
const EXTRA: [&str; 12] = [
    "--iptables-backend=nft",
    "--log-style=native",
    "--logging-format=text",
    "--master=https://10.0.0.1:6443",
    "--metrics-bind-address-override=0.0.0.0:10249",
    "--partial-restore=kep-3453",
    "--service-dispatch=auto",
    "--service-metrics=true",
    "--status-page=false",
    "--sync-cpu-budget=20",
    "--v=4",
    "--verify-interval=1m30s",
];

/// Flags that the chart allows have an effect next to a configuration file.
#[test]
fn extra_flags_are_not_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    fs::write(&file, text).unwrap();
    let log = |flags: &[&str]| {
        let config = format!("--config={}", file.display());
        let output = Ran::of(&mut command(
            PROGRAM,
            &[&["run", "--write-config-to=/dev/null", &config], flags].concat(),
        ));
        assert!(output.is_success(), "{output:#?}");
        output.stderr
    };
    let note = "flags ignored because --config is set";
    assert!(log(&["--masquerade-all"]).contains(note));
    let log = log(&EXTRA);
    assert!(!log.contains(note), "{log}");
    if machine_has(Need::Clients) {
        let rendered = text_of_chart(&format!("extraArgs={{{}}}", EXTRA.join(",")));
        let args =
            &daemon_sets(&rendered)[0]["spec"]["template"]["spec"]["containers"][0]["command"];
        assert!(
            args.to_string()
                .contains(&format!("\"{}\"", EXTRA.join("\",\""))),
            "{args}"
        );
    }
}

/// A patch for a DaemonSet of another shape fails with the path of the field.
#[test]
fn patches_that_cannot_work_are_named() {
    needs!(Clients);
    let folder = copy_of_kustomize();
    let deploy = folder.path().join("kustomize");
    let mine = deploy.join("overlays/mine");
    fs::create_dir(&mine).unwrap();
    let build = |kustomization: &str| {
        let text = format!("apiVersion: kustomize.config.k8s.io/v1beta1\n{kustomization}");
        fs::write(mine.join("kustomization.yaml"), text).unwrap();
        kustomize(mine.to_str().unwrap())
    };
    let good = "resources: [../least-privilege]\nimages:\n\
                - {name: registry.example.com/deltaproxy/deltaproxy, newName: r.test/p, newTag: v9}\n";
    let manifest = build(good).success();
    let images = manifest.matches("image: r.test/p:v9").count();
    assert_eq!(images, 2, "{manifest}");
    for (kustomization, expected) in [
        // Twice: there are no privileges left to move.
        (
            "resources: [../least-privilege]\ncomponents: [../../components/least-privilege]\n",
            "testing value /spec/template/spec/containers/0/securityContext/privileged failed",
        ),
        (
            "resources: [../kubeadm-replace]\npatches:\n\
             - patch: '{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: deltaproxy}}'\n",
            "no matches for Id DaemonSet.v1.apps/deltaproxy",
        ),
    ] {
        let output = build(kustomization);
        assert!(!output.is_success(), "{kustomization}");
        let error = &output.stderr;
        assert!(error.contains(expected), "{kustomization}: {error}");
    }
}
