//! Records what the real kube-proxy gives to its restores and answers, in `tests/golden`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::daemon::{Backend, Daemon, Program, backend_programs, real_program};
use crate::support::kube::{ControlPlane, binary};
use crate::support::netns::Netns;
use crate::support::node::replace_program;
use crate::support::process::run;
use crate::support::wait::{PATIENCE, eventually};
use crate::support::{Need, http, machine_has};
use deltaproxy::testing::render::is_service_chain;
use serde_json::{Value, json};

/// Stands for the folder of the recorder.
const FOLDER: &str = "/var/lib/kube-proxy";

/// Stores payloads that were applied.
const RESTORE: &str = "cat >FOLDER/part.$$\n\
    $REAL \"$@\" <FOLDER/part.$$ || exit 1\n\
    mv FOLDER/part.$$ FOLDER/FAMILY/$(date +%s%N)";

const CONFIG: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: FOLDER/kubeconfig.conf, contentType: application/json}
clusterCIDR: 10.0.0.0/8,fd00:10::/48
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
enableProfiling: true
iptables: {syncPeriod: 30s}
mode: iptables
oomScoreAdj: 0
";

/// Metrics that deltaproxy has as well, or parts of their names.
const METRICS: [&str; 5] = [
    "kubeproxy_",
    "kubernetes_build_info",
    "process_",
    "rest_client_request_duration_seconds",
    "rest_client_requests_total",
];

/// A control plane, and a node for kube-proxy.
struct Recorder {
    netns: Netns,
    control: ControlPlane,
    objects: Vec<Value>,
    folder: PathBuf,
}

impl Recorder {
    fn new(folder: &Path) -> Self {
        let control = ControlPlane::start();
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(include_str!("golden/cluster.yaml")).unwrap();
        for object in &objects {
            // Addresses can be used some time after their ServiceCIDR was created.
            eventually(PATIENCE, || control.api().offer(object));
        }
        let netns = Netns::new("recorder");
        control.attach(&netns, 2);
        fs::copy(control.proxy_kubeconfig(), folder.join("kubeconfig.conf")).unwrap();
        for family in ["iptables", "ip6tables"] {
            let stale = ["-t", "nat", "-N", "KUBE-SVC-AAAAAAAAAAAAAAAA"];
            run(netns
                .command(real_program(Backend::Nft, family))
                .args(stale));
        }
        Self {
            netns,
            control,
            objects,
            folder: folder.to_owned(),
        }
    }

    /// Starts kube-proxy.
    fn start(&self) -> Daemon {
        let folder = self.folder.to_str().unwrap();
        let config = CONFIG.replace("FOLDER", folder);
        fs::write(self.folder.join("config.conf"), config).unwrap();
        let bin = backend_programs(Backend::Nft);
        for family in ["iptables", "ip6tables"] {
            fs::create_dir(self.folder.join(family)).unwrap();
            let name = format!("{family}-restore");
            let script = RESTORE.replace("FOLDER", folder).replace("FAMILY", family);
            replace_program(&bin, Backend::Nft, &name, &script);
        }
        let config = format!("--config={folder}/config.conf");
        // The last two are defaults again, as `Daemon` has them set. With a file they do nothing.
        let args = [
            config.as_str(),
            "--hostname-override= Node-A ",
            "--proxy-mode=",
            "--conntrack-max-per-core=32768",
        ];
        let program = Program::kube_proxy();
        Daemon::start_with(&program, &self.netns, bin, &args)
    }

    /// Changes the endpoints of a Service.
    fn endpoints(&self, service: &str, addresses: &[&str]) {
        let is_slice = |object: &&Value| {
            object["kind"] == "EndpointSlice" && object["metadata"]["name"] == service
        };
        let mut slice = self.objects.iter().find(is_slice).unwrap().clone();
        let endpoints = addresses.iter();
        slice["endpoints"] = endpoints.map(|it| json!({"addresses": [it]})).collect();
        // Without it, kube-proxy does not measure the duration of network programming.
        let now = jiff::Timestamp::now().to_string();
        slice["metadata"]["annotations"] =
            json!({"endpoints.kubernetes.io/last-change-trigger-time": now});
        self.control.api().apply(&slice);
    }

    /// Waits for the first applied payload of this kind.
    fn payload(&self, family: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        eventually(PATIENCE, || {
            let entries = fs::read_dir(self.folder.join(family)).unwrap();
            let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            let mut payloads = paths.iter().map(|path| fs::read_to_string(path).unwrap());
            let found = payloads.find(|payload| is_wanted(payload));
            Ok(in_order(&found.ok_or("no such restore")?))
        })
    }

    /// Returns the body of a page of the metrics server.
    fn page(&self, path: &str) -> String {
        let (status, body) = http::get(&self.netns, Daemon::METRICS, path).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        body.replace(self.folder.to_str().unwrap(), FOLDER)
    }
}

/// Sorts the lines of Services, which kube-proxy writes in random order, by name.
fn in_order(payload: &str) -> String {
    let lines: Vec<&str> = payload.lines().collect();
    let tables = lines.split_inclusive(|line| *line == "COMMIT");
    let sorted = tables.flat_map(|table| {
        let name = |line: &str| {
            let name = line.split([' ', '"']).find(|word| word.starts_with("ns1/"));
            name.map(str::to_owned)
        };
        let owner = |line: &str| {
            let chain = line.trim_start_matches(':').trim_start_matches("-A ");
            let chain = chain
                .split(' ')
                .next()
                .filter(|name| is_service_chain(name))?;
            let rule = format!("-A {chain} ");
            let mut rules = table.iter().filter(|line| line.starts_with(&rule));
            rules.find_map(|line| name(line))
        };
        let owner = |line: &str| name(line).or_else(|| owner(line));
        let mut movable = table.to_vec();
        movable.retain(|line| owner(line).is_some());
        movable.sort_by_key(|line| (line.starts_with("-A"), owner(line)));
        let mut movable = movable.into_iter();
        let places = table
            .iter()
            .map(|&line| owner(line).and_then(|_| movable.next()).unwrap_or(line));
        places.collect::<Vec<_>>()
    });
    sorted.flat_map(|line| [line, "\n"]).collect()
}

/// Replaces times of `/statusz`, and what separates names from values, which each start of
/// kube-proxy chooses at random. `number` has a value that begins with a digit.
fn as_page(page: &str, number: &str, separator: &str) -> String {
    let (_, rest) = page.split_once(&format!("\n{number}")).unwrap();
    let old = &rest[..rest.find(|c: char| c.is_ascii_digit()).unwrap()];
    let lines = page.split_inclusive('\n').zip(0..);
    let lines = lines.map(|(line, at)| match line.split_once(old) {
        Some((name, value)) if at > 2 => {
            let value = match name {
                "Started" => "Sat Nov 21 02:47:15 UTC 2026\n",
                "Up" => "0 hr 00 min 05 sec\n",
                _ => value,
            };
            format!("{name}{separator}{value}")
        }
        _ => line.to_owned(),
    });
    lines.collect()
}

/// Returns the types and series of one family, without values.
fn series(page: &str) -> String {
    let lines = page.lines().filter(|line| {
        let name = line.trim_start_matches("# TYPE ");
        METRICS.iter().any(|metric| name.starts_with(metric)) && !line.contains("\"IPv6\"")
    });
    let lines = lines.map(|line| match line.rsplit_once(' ') {
        Some((series, _)) if !line.starts_with('#') => series,
        _ => line,
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Writes all files of `tests/golden`, except those of `diff` and the cluster.
#[test]
#[ignore = "writes files of the repository"]
fn record() {
    assert!(machine_has(Need::Upstream));
    let folder = tempfile::tempdir().unwrap();
    let node = Recorder::new(folder.path());
    let save = |name: &str, text: &str| {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        fs::write(golden.join(name), text).unwrap();
    };

    // Dropped before the server it talks to.
    let _daemon = node.start();
    save("restore-v4-full.txt", &node.payload("iptables", |_| true));
    save("restore-v6-full.txt", &node.payload("ip6tables", |_| true));
    let (old, new) = ("-> 10.0.0.7:53", "-> 10.0.0.8:53");
    node.endpoints("dns", &["10.0.0.7", "10.0.0.8"]);
    let added = node.payload("iptables", |payload| payload.contains(new));
    save("restore-v4-partial-add-endpoint.txt", &added);
    node.endpoints("dns", &["10.0.0.8"]);
    let is_removed = |payload: &str| payload.contains(new) && !payload.contains(old);
    let removed = node.payload("iptables", is_removed);
    save("restore-v4-partial-remove-endpoint.txt", &removed);

    save("upstream/configz.json", &node.page("/configz"));
    let flagz = as_page(&node.page("/flagz"), "bind-address", ":");
    save("upstream/flagz.txt", &flagz);
    let statusz = as_page(&node.page("/statusz"), "Emulation version", "= ");
    save("upstream/statusz.txt", &statusz);
    save("upstream/metrics.txt", &series(&node.page("/metrics")));

    let defaults = node.folder.join("defaults.yaml");
    let mut write = node.netns.command(binary("kube-proxy").unwrap());
    run(write.arg("--write-config-to").arg(&defaults));
    let defaults = fs::read_to_string(defaults).unwrap();
    save("upstream/default-config.yaml", &defaults);
}
