//! A real Prometheus scrapes a real daemon through changes, flushes, failed restores and a Service
//! that makes restores fail. Then each panel has data, and those alerts fire that should.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::files::{DASHBOARDS, alerts, name, panels, text};
use crate::support::daemon::{Backend, Daemon, Program, real_program};
use crate::support::kube::ControlPlane;
use crate::support::lab::CLUSTER_CIDR;
use crate::support::netns::Netns;
use crate::support::node::with_restore;
use crate::support::process::{Process, run};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{Need, has_program, http, machine_has, objects};

const PROMETHEUS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090);

/// Covers the whole test.
const WINDOW: &str = "3m";

/// Fails while there is a file `broken`, and at a line with an endpoint of [`REFUSED`].
const RESTORE: &str = "\
    payload=$(cat)\n\
    [ ! -e FOLDER/broken ] || { echo 'out of memory' >&2; exit 1; }\n\
    line=$(printf '%s\\n' \"$payload\" | grep -n -m 1 -F 10.4.66.66 | cut -d: -f1)\n\
    [ -z \"$line\" ] || { echo \"iptables-restore: line $line failed\" >&2; exit 1; }\n\
    printf '%s\\n' \"$payload\" | $REAL \"$@\"";

/// Endpoint that makes restores fail.
const REFUSED: &str = "10.4.66.66";

/// Alerts that fire during the test.
const FIRE: [&str; 5] = [
    "DeltaproxyFrontendConflicts",
    "DeltaproxyRestoresFail",
    "DeltaproxyRulesFlushed",
    "DeltaproxyRulesStale",
    "DeltaproxyServicesQuarantined",
];

/// Alerts that may fire: how long repairs and changes wait depends on the machine, and so does
/// whether a check, which runs `iptables-restore` as well, fails with the restores.
const MAY_FIRE: [&str; 4] = [
    "DeltaproxyProgrammingSlow",
    "DeltaproxyRulesContested",
    "DeltaproxyRulesDrifted",
    "DeltaproxyTablesUnreadable",
];

/// Panels that may have no data, with the reason.
const EMPTY: [(&str, &str); 1] = [(
    "Counted packets",
    "the kernel of the test may lack the module xt_nfacct",
)];

/// Queries of the dashboard of kubernetes-mixin for kube-proxy, one for each of its panels.
const MIXIN: [(&str, &str); 9] = [
    ("up", r#"sum(up{job="kube-proxy"})"#),
    (
        "rules sync rate",
        r#"sum(rate(kubeproxy_sync_proxy_rules_duration_seconds_count{job="kube-proxy"}[3m]))"#,
    ),
    (
        "rules sync latency",
        r#"histogram_quantile(0.99, rate(kubeproxy_sync_proxy_rules_duration_seconds_bucket{job="kube-proxy"}[3m]))"#,
    ),
    (
        "network programming rate",
        r#"sum(rate(kubeproxy_network_programming_duration_seconds_count{job="kube-proxy"}[3m]))"#,
    ),
    (
        "network programming latency",
        r#"histogram_quantile(0.99, sum by (instance, le) (rate(kubeproxy_network_programming_duration_seconds_bucket{job="kube-proxy"}[3m])))"#,
    ),
    (
        "API request rate",
        r#"sum(rate(rest_client_requests_total{job="kube-proxy", code=~"2.."}[3m]))"#,
    ),
    (
        "API request latency",
        r#"histogram_quantile(0.99, sum by (verb, le) (rate(rest_client_request_duration_seconds_bucket{job="kube-proxy", verb="POST"}[3m])))"#,
    ),
    (
        "memory",
        r#"process_resident_memory_bytes{job="kube-proxy"}"#,
    ),
    (
        "CPU",
        r#"rate(process_cpu_seconds_total{job="kube-proxy"}[3m])"#,
    ),
];

/// Panel of that dashboard that stays empty: deltaproxy has no goroutines.
const GOROUTINES: &str = r#"go_goroutines{job="kube-proxy"}"#;

/// Returns the rules with short durations, so that alerts fire within the test.
fn hasty(rules: &str) -> String {
    let lines = rules.lines().map(|line| {
        let start = line.trim_start();
        if start.starts_with("for: ") {
            return format!("{}for: 1s", &line[..line.len() - start.len()]);
        }
        let mut parts = line.split('[');
        let mut hasty = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // A text of an annotation has no such bracket.
            let (_, rest) = part.split_once(']').unwrap();
            hasty.extend(["[", WINDOW, "]", rest]);
        }
        hasty.replace("_seconds > 60", "_seconds > 2")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The daemon and Prometheus in one namespace, with a control plane.
struct Scene {
    // Dropped from top to bottom: programs before the server they talk to.
    prometheus: Process,
    daemon: Option<Daemon>,
    bin: PathBuf,
    netns: Netns,
    control: ControlPlane,
    _folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        let control = ControlPlane::start();
        control
            .api()
            .apply(&objects::node("10.200.0.2", "fd00:200::2"));
        let netns = Netns::new("monitored");
        control.attach(&netns, 2);
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().to_owned();
        // First, so that it sees every counter at 0.
        let prometheus = start_prometheus(&netns, folder.path());
        let script = RESTORE.replace("FOLDER", &bin.display().to_string());
        let [kubeconfig, hostname] = control.flags();
        let args = [
            &*kubeconfig,
            &*hostname,
            CLUSTER_CIDR,
            "--iptables-sync-period=1s",
            "--iptables-min-sync-period=0s",
            "--verify-interval=1s",
        ];
        let programs = with_restore(Backend::Nft, &script);
        let daemon = Daemon::start_with(&Program::Deltaproxy, &netns, programs, &args);
        Self {
            prometheus,
            daemon: Some(daemon),
            bin,
            netns,
            control,
            _folder: folder,
        }
    }

    /// Returns the answer of the API of Prometheus.
    fn get(&self, path: &str) -> Result<Value, String> {
        let (_, body) = http::get(&self.netns, PROMETHEUS, path)?;
        let answer: Value = serde_json::from_str(&body).map_err(|why| format!("{why}: {body}"))?;
        ensure(answer["status"] == "success", || format!("{path}: {body}"))?;
        Ok(answer["data"].clone())
    }

    /// Returns the labels and values of an instant query.
    fn query(&self, query: &str) -> Result<Vec<(Value, f64)>, String> {
        let data = self.get(&format!("/api/v1/query?query={}", escaped(query)))?;
        let found = data["result"].as_array().ok_or("no vector")?.iter();
        let pairs = found.map(|one| {
            let value = one["value"][1].as_str().unwrap().parse().unwrap();
            (one["metric"].clone(), value)
        });
        Ok(pairs.collect())
    }

    /// Complains of a query without a number.
    fn has_data(&self, query: &str) -> Result<(), String> {
        let found = self.query(query)?;
        let is_there = found.iter().any(|(_, value)| !value.is_nan());
        ensure(is_there, || format!("no data: {query}: {found:?}"))
    }

    /// Alerts that fire now, or have fired.
    fn fired(&self) -> Result<BTreeSet<String>, String> {
        let query = format!("max_over_time(ALERTS{{alertstate=\"firing\"}}[{WINDOW}])");
        let found = self.query(&query)?.into_iter();
        let names = found.map(|(labels, _)| labels["alertname"].as_str().unwrap().to_owned());
        Ok(names.collect())
    }

    #[track_caller]
    fn wait_for_alerts(&self, wanted: &[&str]) {
        eventually(PATIENCE, || {
            let fired = self.fired()?;
            let missing: Vec<_> = wanted.iter().filter(|one| !fired.contains(**one)).collect();
            ensure(missing.is_empty(), || {
                format!("{missing:?} did not fire, {fired:?} did")
            })
        });
    }

    /// Waits until Prometheus has such a value.
    #[track_caller]
    fn wait_for(&self, query: &str) {
        eventually(PATIENCE, || {
            ensure(!self.query(query)?.is_empty(), || {
                let daemon = self.daemon.as_ref().map(Daemon::log);
                format!("{query}: {}", daemon.unwrap_or_default())
            })
        });
    }

    /// Applies the EndpointSlice of a Service, changed now.
    fn slice(&self, service: &Value, address: &str) {
        let mut slice = objects::slice(service, &[address]);
        let now = jiff::Timestamp::now().to_string();
        slice["metadata"]["annotations"] =
            json!({"endpoints.kubernetes.io/last-change-trigger-time": now});
        self.control.api().apply(&slice);
    }

    /// Flushes the nat table, and waits until Prometheus has seen its repair.
    fn flush(&self, times: u8) {
        let flush = real_program(Backend::Nft, "iptables");
        run(self.netns.command(flush).args(["-w", "-t", "nat", "-F"]));
        let syncs = "deltaproxy_full_syncs_total{ip_family=\"IPv4\",reason=\"flushed\"}";
        self.wait_for(&format!("{syncs} >= {times}"));
        self.wait_for("deltaproxy_rules_verified{ip_family=\"IPv4\"} == 1");
    }

    /// Reasons of the Events that `deploy/docs/alerts.md` lists with kubectl.
    fn event_reasons(&self) -> Result<BTreeSet<String>, String> {
        let selector = "type=Warning,reportingComponent=kube-proxy";
        let page = include_str!("../../deploy/docs/alerts.md");
        assert!(page.contains(&format!(
            "kubectl get events -A --field-selector {selector}\n"
        )));
        let path = format!("/api/v1/events?fieldSelector={}", escaped(selector));
        let list = self
            .control
            .api()
            .get(&path)
            .map_err(|why| format!("{why:?}"))?;
        let list: Value = serde_json::from_str(&list).map_err(|why| why.to_string())?;
        let events = list["items"].as_array().ok_or("no list")?.iter();
        let reasons = events.map(|event| event["reason"].as_str().unwrap().to_owned());
        Ok(reasons.collect())
    }
}

fn start_prometheus(netns: &Netns, folder: &Path) -> Process {
    let rules = hasty(&text("rules.yaml"));
    fs::write(folder.join("rules.yaml"), rules).unwrap();
    let config = format!(
        "global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}\n\
         rule_files: [rules.yaml]\n\
         scrape_configs:\n\
         - job_name: kube-proxy\n  static_configs:\n  - targets: ['{}']\n    labels: {{instance: {}}}\n",
        Daemon::METRICS,
        objects::NODE,
    );
    fs::write(folder.join("prometheus.yaml"), config).unwrap();
    let mut command = netns.command("prometheus");
    let flag = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    command
        .arg(flag("config.file", "prometheus.yaml"))
        .arg(flag("storage.tsdb.path", "data"))
        .arg(format!("--web.listen-address={PROMETHEUS}"))
        .arg("--log.level=warn");
    Process::start("prometheus", &mut command, &folder.join("log"))
}

/// Returns a text as the value of a query of a URL.
fn escaped(text: &str) -> String {
    let bytes = text.bytes().map(|byte| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    bytes.collect()
}

/// Returns a query of a panel with the values of its variables.
fn substituted(query: &str) -> String {
    let query = query.replace("$__rate_interval", WINDOW);
    let query = query.replace("$job", "kube-proxy");
    query.replace("$instance", objects::NODE)
}

fn service(name: &str, ip: u8, protocol: &str) -> Value {
    let port = json!({"name": "http", "protocol": protocol, "port": 80, "targetPort": 8080});
    let ip = format!("10.96.1.{ip}");
    objects::service(
        name,
        json!({"clusterIP": ip, "externalIPs": ["203.0.113.7"], "ports": [port]}),
    )
}

/// What the Prometheus sees before it is asked.
fn history(scene: &mut Scene) {
    let api = scene.control.api();
    scene.wait_for("kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}");
    let (web, other) = (service("web", 1, "TCP"), service("other", 2, "TCP"));
    let dns = service("dns", 3, "UDP");
    api.apply_all(&[web.clone(), other, dns.clone()]);
    for host in 1..12 {
        scene.slice(&web, &format!("10.4.0.{host}"));
        scene.slice(&dns, &format!("10.4.0.{host}"));
        std::thread::sleep(Duration::from_millis(200));
    }
    scene.flush(1);
    scene.flush(2);
    let broken = scene.bin.join("broken");
    fs::write(&broken, "").unwrap();
    scene.slice(&web, "10.4.0.99");
    scene.wait_for_alerts(&["DeltaproxyRulesStale", "DeltaproxyRestoresFail"]);
    fs::remove_file(&broken).unwrap();
    scene.wait_for("kubeproxy_sync_proxy_rules_endpoint_changes_pending == 0");
    let victim = service("victim", 4, "TCP");
    api.apply(&victim);
    scene.slice(&victim, REFUSED);
    scene.wait_for_alerts(&FIRE);
}

#[test]
fn each_panel_has_data_and_alerts_fire() {
    if !machine_has(Need::Cluster) || !has_program("prometheus") {
        return;
    }
    let mut scene = Scene::new();
    history(&mut scene);
    let mut queries = BTreeMap::new();
    for file in DASHBOARDS {
        for panel in panels(file) {
            for query in &panel.queries {
                queries.insert(substituted(query), format!("{file}: {}", panel.title));
            }
        }
    }
    let mixin = MIXIN.map(|(title, query)| (query.to_owned(), format!("mixin: {title}")));
    queries.extend(mixin);
    let may_be_empty = |title: &str| EMPTY.iter().any(|(empty, _)| title.ends_with(empty));
    let complaints: Vec<String> = queries
        .iter()
        .filter(|(_, title)| !may_be_empty(title))
        .filter_map(|(query, title)| {
            let why = scene.has_data(query).err()?;
            Some(format!("{title}: {why}"))
        })
        .collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    assert_eq!(scene.query(GOROUTINES).unwrap(), []);
    eventually(PATIENCE, || {
        let found = scene.event_reasons()?;
        let wanted = ["RulesFlushed", "ServiceQuarantined", "SyncFailed"];
        let has_all = wanted.iter().all(|reason| found.contains(*reason));
        ensure(has_all, || format!("{found:?}"))
    });
    texts_are_whole(&scene);

    drop(scene.daemon.take());
    scene.wait_for_alerts(&["DeltaproxyDown"]);
    let fired = scene.fired().unwrap();
    let expected: BTreeSet<_> = [&FIRE[..], &MAY_FIRE, &["DeltaproxyDown"]]
        .concat()
        .into_iter()
        .collect();
    let others: Vec<_> = fired
        .iter()
        .filter(|one| !expected.contains(&one.as_str()))
        .collect();
    assert!(others.is_empty(), "{others:?} should be quiet");
    scene.prometheus.assert_running();
}

/// Templates of annotations find their labels.
#[track_caller]
fn texts_are_whole(scene: &Scene) {
    let active = scene.get("/api/v1/alerts").unwrap();
    let active = active["alerts"].as_array().unwrap();
    let known: BTreeSet<_> = alerts()
        .iter()
        .map(|alert| name(alert).to_owned())
        .collect();
    assert!(active.len() > 3, "{active:?}");
    for alert in active {
        let labels = &alert["labels"];
        assert!(known.contains(labels["alertname"].as_str().unwrap()));
        let summary = alert["annotations"]["summary"].as_str().unwrap();
        let is_whole = summary.starts_with(&format!("{}: ", objects::NODE))
            && !summary.contains("()")
            && !summary.contains('<');
        assert!(is_whole, "{summary}");
    }
}
