//! The two HTTP servers of a running daemon: what they show, and what clients cannot do to them.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::support::daemon::Daemon;
use crate::support::netns::Netns;
use crate::support::process::Process;
use crate::support::program::PROGRAM;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs};
use tempfile::TempDir;

/// A namespace may not raise the machine's conntrack limits.
const RUN: [&str; 3] = [
    "run",
    "--hostname-override=node-a",
    "--conntrack-max-per-core=0",
];

/// Script that only starts the program.
const AS_IT_IS: &str = r#"exec "$0" "$@""#;

/// How a page begins.
const OK: &str = "HTTP/1.1 200 OK\r\n";

/// A daemon that follows manifests.
pub(crate) struct Scene {
    process: Process,
    netns: Netns,
    pub(crate) folder: TempDir,
}

impl Scene {
    /// Started, and answering on one of its ports.
    pub(crate) fn start(flags: &[&str], port: SocketAddr) -> Self {
        let mut scene = Self::through(AS_IT_IS, &service("web"), flags);
        scene.wait_for(port);
        scene
    }

    /// Started by a shell that does something with it, following these manifests.
    fn through(script: &str, manifests: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("manifests");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("first.yaml"), manifests).unwrap();
        let source = format!("--manifests={}", directory.display());
        Self::follow(script, folder, &[&[source.as_str()], flags].concat())
    }

    /// Starts the program by a script; the flags name the source of Services.
    fn follow(script: &str, folder: TempDir, flags: &[&str]) -> Self {
        let netns = Netns::new("pages");
        let mut command = netns.command("sh");
        command.args(["-c", script, PROGRAM]).args(RUN).args(flags);
        let log = folder.path().join("log");
        Self {
            process: Process::start("the daemon", &mut command, &log),
            netns,
            folder,
        }
    }

    fn wait_for(&mut self, port: SocketAddr) {
        eventually(PATIENCE, || {
            self.process.assert_running();
            self.connect(port).map_err(|error| error.to_string())
        });
    }

    fn connect(&self, port: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.netns.enter(|| TcpStream::connect(port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Everything that comes back for one request, with its head.
    pub(crate) fn say(&self, port: SocketAddr, request: &str) -> String {
        let mut stream = self.connect(port).unwrap();
        // Who is refused early may not get rid of all of it, nor read all of the answer.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.get_at(Daemon::METRICS, path)
    }

    pub(crate) fn get_at(&self, port: SocketAddr, path: &str) -> String {
        self.say(port, &request("GET", path, ""))
    }

    /// Returns the metrics, once there are any.
    fn metrics(&self) -> Result<String, String> {
        self.connect(Daemon::METRICS)
            .map_err(|error| error.to_string())?;
        Ok(self.get("/metrics"))
    }

    #[track_caller]
    pub(crate) fn assert_alive(&self) {
        let livez = self.get_at(Daemon::HEALTH, "/livez");
        assert!(livez.starts_with(OK), "{livez}");
    }
}

pub(crate) fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn service(name: &str) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: default}}
spec: {{ports: [{{port: 80}}]}}
"
    )
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn pages_show_the_process() {
    needs!(Kernel);
    let scene = Scene::start(&["--profiling", "--masquerade-all"], Daemon::METRICS);
    let configz: serde_json::Value = serde_json::from_str(body(&scene.get("/configz"))).unwrap();
    let configuration = &configz["kubeproxy.config.k8s.io"];
    assert_eq!(configuration["kind"], "KubeProxyConfiguration");
    assert_eq!(configuration["iptables"]["masqueradeAll"], true);
    let flagz = scene.get("/flagz");
    for line in ["masquerade-all:true", "hostname-override:node-a", "v:0"] {
        assert!(flagz.lines().any(|found| found == line), "{line}: {flagz}");
    }
    assert_eq!(body(&scene.get("/proxyMode")), "iptables");
    let metrics = scene.get("/metrics");
    assert!(metrics.contains("\nkubernetes_build_info{"), "{metrics}");
    assert!(metrics.len() < 40_000, "{} bytes", metrics.len());
}

#[test]
fn the_log_level_is_changed_while_running() {
    needs!(Kernel);
    let scene = Scene::start(&["--profiling"], Daemon::METRICS);
    assert!(!scene.process.log().contains("DEBUG"));
    let put = scene.say(Daemon::METRICS, &request("PUT", "/debug/flags/v", "4"));
    assert!(put.starts_with(OK), "{put}");
    assert_eq!(body(&put), "successfully set klog.logging.verbosity to 4\n");
    let more = scene.folder.path().join("manifests/more.yaml");
    fs::write(more, service("more")).unwrap();
    eventually(PATIENCE, || {
        let log = scene.process.log();
        ensure(log.contains("DEBUG"), || format!("nothing more:\n{log}"))
    });
}

/// The oldest connection is closed, and an outage is one line.
#[test]
fn a_flood_beyond_the_limit_of_open_files_is_outlived() {
    needs!(Kernel);
    let script = r#"ulimit -n 64; exec "$0" "$@""#;
    let scene = Scene::through(script, "# Nothing to serve.\n", &[]);
    // A start needs files of its own for threads and for the programs of the first sync.
    eventually(PATIENCE, || {
        let metrics = scene.metrics()?;
        let ended = ["IPv4", "IPv6"].map(|family| {
            format!("kubeproxy_sync_proxy_rules_last_timestamp_seconds{{ip_family=\"{family}\"}}")
        });
        let ended = ended.iter().all(|metric| metrics.contains(metric));
        ensure(ended, || metrics)
    });
    let flood: Vec<_> = (0..300).map(|_| scene.connect(Daemon::HEALTH)).collect();
    eventually(PATIENCE, || {
        let livez = scene.get_at(Daemon::HEALTH, "/livez");
        ensure(livez.starts_with(OK), || livez)
    });
    drop(flood);
    let log = scene.process.log();
    assert_eq!(
        log.matches("cannot accept a connection").count(),
        1,
        "{log}"
    );
}

/// The thread that reads manifests does not get on: it logs into a full pipe.
#[test]
fn pages_are_served_while_everything_else_waits() {
    needs!(Kernel);
    let services: Vec<_> = (0..2000)
        .map(|number| service(&format!("s{number}")))
        .map(|service| service.replace("spec: {", "spec: {externalIPs: [nonsense], "))
        .collect();
    let script = r#""$0" "$@" 2>&1 | sleep infinity"#;
    let scene = Scene::through(script, &services.join("---\n"), &["-v=2"]);
    // A sync was asked for, and has not ended: it never will.
    let queued = r#"kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"}"#;
    let ended = r#"kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}"#;
    eventually(PATIENCE, || {
        let metrics = scene.metrics()?;
        ensure(metrics.contains(queued), || metrics.clone())
    });
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(100));
        let metrics = scene.get("/metrics");
        assert!(
            metrics.contains(queued) && !metrics.contains(ended),
            "{metrics}"
        );
        scene.assert_alive();
    }
}

/// No program is at the address of the API server; kube-proxy would wait for its Node first.
#[test]
fn pages_are_served_while_no_cluster_can_be_reached() {
    needs!(Kernel);
    let folder = tempfile::tempdir().unwrap();
    let mut scene = Scene::follow(AS_IT_IS, folder, &["--master=http://127.0.0.1:1"]);
    scene.wait_for(Daemon::HEALTH);
    scene.assert_alive();
    // Of the Node nothing is known, and nothing was promised.
    let healthz = scene.get_at(Daemon::HEALTH, "/healthz");
    assert!(healthz.starts_with("HTTP/1.1 503 "), "{healthz}");
    let failed = "rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:1\"";
    eventually(PATIENCE, || {
        let metrics = scene.get("/metrics");
        ensure(metrics.contains(failed), || metrics.clone())
    });
}

/// A Service whose traffic is this node's, as load balancers ask on the port.
const BALANCED: &str = "\
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32100, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: balanced-1, labels: {kubernetes.io/service-name: balanced}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.4.0.11], nodeName: node-a}]
";

/// The thread of syncs is kept from going on behind its second one: its log is not read.
#[test]
fn health_checks_are_answered_while_everything_else_waits() {
    needs!(Kernel);
    let script = r#""$0" "$@" 2>&1 | sleep infinity"#;
    let flags = ["-v=4", "--conntrack-max-per-core=0"];
    let scene = Scene::through(script, BALANCED, &flags);
    let port = SocketAddr::from(([127, 0, 0, 1], 32100));
    let check = || scene.get_at(port, "/");
    eventually(PATIENCE, || {
        scene.connect(port).map_err(|error| error.to_string())?;
        let answer = check();
        ensure(answer.starts_with(OK), || answer)
    });
    let services: Vec<_> = (0..2000)
        .map(|number| service(&format!("s{number}")))
        .collect();
    // Read whole, so that one sync logs more than the pipe holds.
    let new = scene.folder.path().join("more.yaml");
    fs::write(&new, services.join("---\n")).unwrap();
    fs::rename(&new, scene.folder.path().join("manifests/more.yaml")).unwrap();
    let value_of = |metrics: &str, metric: &str| {
        let series = format!("kubeproxy_sync_proxy_rules_{metric}");
        http::value(metrics, &series).unwrap_or_default()
    };
    // Either a sync was requested and has not ended, or the thread waits to log between two syncs,
    // the last of which did not have all Services.
    let (mut asks_since, mut rules_before) = (0, 0.0);
    eventually(PATIENCE, || {
        let answer = check();
        assert!(answer.starts_with(OK), "{answer}");
        let metrics = scene.get("/metrics");
        let time = |what| {
            let metric = format!("last_{what}timestamp_seconds{{ip_family=\"IPv4\"}}");
            value_of(&metrics, &metric)
        };
        let rules = value_of(
            &metrics,
            "iptables_total{ip_family=\"IPv4\",table=\"filter\"}",
        );
        let is_partial = rules < 2000.0 && rules.total_cmp(&rules_before).is_eq();
        let is_held = time("queued_") > time("") || is_partial;
        rules_before = rules;
        asks_since = if is_held { asks_since + 1 } else { 0 };
        ensure(asks_since == 50, || {
            format!("{asks_since} asks, then {metrics}")
        })
    });
}

#[test]
fn servers_are_switched_off() {
    needs!(Kernel);
    for (flag, off, on) in [
        ("--metrics-bind-address=", Daemon::METRICS, Daemon::HEALTH),
        (
            "--metrics-bind-address=off",
            Daemon::METRICS,
            Daemon::HEALTH,
        ),
        (
            "--healthz-bind-address=off",
            Daemon::HEALTH,
            Daemon::METRICS,
        ),
        ("--healthz-port=0", Daemon::HEALTH, Daemon::METRICS),
    ] {
        let mut scene = Scene::start(&[flag], on);
        let error = scene.connect(off).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{flag}");
        scene.process.assert_running();
    }
    let mut scene = Scene::start(&["--bind-address-hard-fail"], Daemon::METRICS);
    // Without `--profiling`, no request changes the log level.
    let put = scene.say(Daemon::METRICS, &request("PUT", "/debug/flags/v", "4"));
    assert!(put.contains(" 404 "), "{put}");
    assert!(scene.process.terminate(PATIENCE).success());
}

/// A client that sends requests and never reads a reply is disconnected.
#[test]
fn answers_that_nobody_reads_are_not_kept() {
    needs!(Kernel);
    let scene = Scene::start(&[], Daemon::METRICS);
    let mut stream = scene.connect(Daemon::METRICS).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let ask = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let start = Instant::now();
    let ended = loop {
        match stream.write(&ask) {
            Ok(_) => {}
            // Another test's child may end meanwhile: its signal interrupts the call.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => break error,
        }
        assert!(start.elapsed() < PATIENCE * 2, "still connected");
    };
    let is_end = matches!(
        ended.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    );
    assert!(is_end, "{ended}");
}

/// Beside the proxy of a node, whose ports these are.
#[test]
fn a_dry_run_opens_no_port_and_says_what_it_would_do() {
    needs!(Kernel);
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    fs::write(manifests.join("balanced.yaml"), BALANCED).unwrap();
    let netns = Netns::new("dry-run");
    let mut command = netns.command(PROGRAM);
    command
        .args(RUN)
        .args(["--dry-run", "--manifests"])
        .arg(manifests);
    let mut process = Process::start("the dry run", &mut command, &folder.path().join("log"));
    eventually(PATIENCE, || {
        let log = process.log();
        ensure(log.matches("would sync").count() == 2, || log)
    });
    let log = process.log();
    assert!(log.contains("starting a dry run"), "{log}");
    assert!(!log.contains(" synced"), "{log}");
    let listeners = netns.command("ss").arg("-tulnH").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listeners.stdout), "");
    process.assert_running();
}
