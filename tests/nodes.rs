//! Nodes of a cluster, read from another machine: with a real API server, and the streaming server
//! of the kubelet, whose Pods are network namespaces.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use std::{fs, thread};

use crate::support::daemon::{Backend, Daemon, Program, backend_programs};
use crate::support::kube::{ControlPlane, binary};
use crate::support::netns::Netns;
use crate::support::process::Process;
use crate::support::program::{PROGRAM, Ran};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, tell};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Port of the kubelet.
const KUBELET: u16 = 10250;

/// Port at which nothing listens.
const NO_KUBELET: u16 = 10251;

/// A cluster, its kubelet, and one node with a daemon.
struct Scene {
    control: ControlPlane,
    _kubelet: Process,
    _daemon: Daemon,
    node: Netns,
    folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        let control = ControlPlane::start_with(&["--kubelet-preferred-address-types=InternalIP"]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sandboxes");
        fs::write(&file, "").unwrap();
        let mut kubelet = control
            .netns()
            .command(binary("kubelet-streams").unwrap_or_else(|why| panic!("{why}")));
        kubelet.arg(format!("10.200.0.1:{KUBELET}")).arg(&file);
        let log = folder.path().join("kubelet.log");
        let kubelet = Process::start("kubelet-streams", &mut kubelet, &log);
        let node = Netns::new("node");
        let daemon = Daemon::start_on_examples(&node, Backend::Nft, "127.0.0.1:10249");
        Self {
            control,
            _kubelet: kubelet,
            _daemon: daemon,
            node,
            folder,
        }
    }

    /// Adds sandboxes: Pods that the kubelet runs, in the network of the node.
    fn run_pods(&self, names: &[String]) {
        let path = self.folder.path().join("sandboxes");
        let mut text = fs::read_to_string(&path).unwrap();
        for name in names {
            writeln!(text, "kube-system/{name} {}", self.node.path().display()).unwrap();
        }
        fs::write(path, text).unwrap();
    }

    /// Runs the program elsewhere in the network of the API server.
    fn run_as(&self, kubeconfig: &Path, program: &Path, args: &[&str]) -> Ran {
        let mut command = self.control.netns().command(program);
        Ran::of(command.args(args).env("KUBECONFIG", kubeconfig))
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_as(&self.control.kubeconfig(), Path::new(PROGRAM), args)
    }

    /// Runs a command on all nodes, and prints how long it takes.
    fn run_timed(&self, args: &[&str]) -> Ran {
        let started = Instant::now();
        let ran = self.run(&[args, &["--all-nodes"]].concat());
        let (command, time) = (args[0], started.elapsed());
        tell(format_args!("{command} of {NODES} nodes: {time:?}"));
        ran
    }

    /// Runs a command that must fail with this code, and print these texts on stderr.
    #[track_caller]
    fn fails(&self, code: i32, args: &[&str], texts: &[&str]) {
        self.run(args).fails(code, texts);
    }
}

#[track_caller]
fn check(said: &str, expected: &str) {
    assert!(said.contains(expected), "{said}");
}

fn node(name: &str, kubelet: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.200.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
        },
    })
}

/// Pod of a proxy, named after its program and its node.
fn pod(node: &str, program: &str, port: u16, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{program}-{node}"), "namespace": "kube-system",
            "labels": {"k8s-app": program},
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": true,
            "containers": [{
                "name": "kube-proxy",
                "image": format!("registry.example.com/{program}:v1"),
                "ports": [{"name": "metrics", "containerPort": port}],
            }],
        },
        "status": {"phase": phase},
    })
}

#[test]
fn a_node_is_read_by_port_forward_or_by_exec() {
    needs!(Nodes);
    let scene = Scene::new();
    let api = scene.control.api();
    api.apply_all(&[
        node("node1", KUBELET),
        node("node2", KUBELET),
        pod("node1", "deltaproxy", 10249, "Running"),
        pod("node2", "kube-proxy", 10249, "Running"),
    ]);
    scene.run_pods(&["deltaproxy-node1".to_owned(), "kube-proxy-node2".to_owned()]);

    let on_node = |args: &[&str]| Ran::of(scene.node.command(PROGRAM).args(args)).success();
    let here = on_node(&["services", "--iptables-backend=nft"]);
    check(&here, "storefront:http");
    let by_page = scene.run(&["services", "--node=node1"]);
    assert_eq!(by_page.clone().success(), here);
    check(
        &by_page.stderr,
        "rules of node1 (nft), written by deltaproxy",
    );
    let by_exec = scene.run(&["services", "--node=node2"]);
    assert_eq!(by_exec.success(), here);

    check_diff(&scene);

    let status = scene.run(&["status", "--node", "node1"]);
    assert!(status.success().starts_with("node1: well\n"));
    scene.fails(
        2,
        &["status", "--node", "node2"],
        &["runs kube-proxy, which has no status"],
    );

    let explained = scene.run(&["explain", "10.96.0.10:53/udp", "--node=node1"]);
    check(&explained.success(), "shop/dns");

    // As users of kubectl type it.
    let plugin = scene.folder.path().join("kubectl-deltaproxy");
    symlink(PROGRAM, &plugin).unwrap();
    let args = [
        "-n",
        "shop",
        "--context",
        "tests",
        "services",
        "--node",
        "node1",
    ];
    let listed = scene.run_as(&scene.control.kubeconfig(), &plugin, &args);
    check(&listed.success(), "storefront:http");

    check_agreement(&scene);
    check_shadow(&scene);
    check_labels(&scene);
    check_failures(&scene);
    check_permissions(&scene);
}

/// A shadow next to the proxy of a node is asked by its own label, and not taken for the proxy.
fn check_shadow(scene: &Scene) {
    scene.fails(
        2,
        &["shadow-report", "--all-nodes"],
        &["no Pod of deltaproxy in shadow mode"],
    );
    let shadow = pod("node1", "deltaproxy-shadow", 10349, "Running");
    scene.control.api().apply(&shadow);
    scene.run_pods(&["deltaproxy-shadow-node1".to_owned()]);
    let flags = [
        "--shadow",
        "--manifests=deploy/examples",
        "--hostname-override=node1",
    ];
    let programs = backend_programs(Backend::Nft);
    let _shadow = Daemon::spawn(&Program::Deltaproxy, &scene.node, programs, &flags);
    let address = "127.0.0.1:10349".parse().unwrap();
    eventually(PATIENCE, || {
        let (_, page) = http::get(&scene.node, address, "/shadow")?;
        let page: Value = serde_json::from_str(&page).map_err(|error| error.to_string())?;
        let v4 = &page["families"][0];
        let has_read = v4["readings"]["count"].as_u64() > Some(0);
        let is_same = v4["differing_services"] == 0 && v4["services"].as_u64() > Some(3);
        ensure(has_read && is_same, || page.to_string())
    });
    for args in [&["--all-nodes"][..], &["--node=node1"]] {
        let report = scene.run(&[&["shadow-report"], args].concat());
        let text = report.success();
        check(
            &text,
            "1 node, 0 changes, 0 differences that affect packets\n",
        );
    }
    check_agreement(scene);
}

/// The rules of a node are compared with those of the cluster for that node.
fn check_diff(scene: &Scene) {
    for (node, source) in [
        ("node1", "live: rules of node1 (nft), written by deltaproxy"),
        ("node2", "live: the kernel's rules of node2"),
    ] {
        // The cluster has no Services: those of the daemon's manifests are too many.
        let ran = scene.run(&["diff", "--node", node, "--cluster-cidr=10.4.0.0/14"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        check(&ran.stdout, source);
        check(&ran.stdout, "shop/storefront:http");
    }
    scene.fails(2, &["diff", "--node=nothing"], &["nothing"]);
}

fn check_agreement(scene: &Scene) {
    let all = scene.run(&["status", "--all-nodes"]);
    assert_eq!(
        all.success(),
        "NODE    STATE     PROBLEM
node2   other     kube-proxy, which has no status
1 of 2 nodes are well: 1 with deltaproxy 0.1.0, nft
"
    );
    // Where nodes agree, nothing is printed but a note.
    for (args, note) in [
        (
            &["services"][..],
            "service ports; not ok on all of them: shop/gift-cards:http/tcp",
        ),
        (&["explain", "shop/storefront"], "agree: 3 endpoints answer"),
    ] {
        let agreed = scene.run(&[args, &["--all-nodes"]].concat());
        assert_eq!(agreed.clone().success(), "");
        check(&agreed.stderr, "note: 2 nodes agree");
        check(&agreed.stderr, note);
    }
    scene.fails(
        2,
        &["services", "--all-nodes", "shop/nothing"],
        &["shop/nothing"],
    );
    scene.fails(
        2,
        &["explain", "--all-nodes", "shop/nothing"],
        &["shop/nothing"],
    );
}

/// Labels select Services by the API server.
fn check_labels(scene: &Scene) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "storefront", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    });
    scene.control.api().apply_all(&[namespace, service]);
    let listed = scene
        .run(&["services", "--node=node1", "-l", "app=web"])
        .success();
    let rows: Vec<&str> = listed.lines().skip(1).collect();
    assert_eq!(rows.len(), 1, "{listed}");
    check(rows[0], "storefront:http");
    let names = ["services", "--node=node1", "-l", "app=web", "-o", "name"];
    assert_eq!(scene.run(&names).success(), "service/storefront\n");
    scene.fails(
        1,
        &["services", "--node=node1", "-l", "app=other"],
        &["no Service with rules has the labels `app=other`"],
    );
}

/// Exit code, command, and texts on stderr.
const UNREADABLE: &str = "\
1 | services --node=nothing   | no Pod of deltaproxy or kube-proxy on node `nothing` | hint:
2 | status --node=pending     | node `pending`: Pod kube-system/deltaproxy-pending is Pending | hint:
1 | services --node=gone      | no sandbox of kube-system/deltaproxy-gone
1 | services --node=down      | connection refused | kubectl get node down
1 | services --node=elsewhere | no page /rules at port 1 of Pod kube-system/deltaproxy-elsewhere: | connection refused
1 | services --node=silent --request-timeout=2s | node `silent`: no answer within 2 s | hint:
";

/// A node that cannot be read is an error with a hint, and stops no others.
fn check_failures(scene: &Scene) {
    let listen = || TcpListener::bind("10.200.0.1:0").unwrap();
    let silent = scene.control.netns().enter(listen);
    let silent_port = silent.local_addr().unwrap().port();
    for (name, kubelet, port, phase) in [
        ("down", NO_KUBELET, 10249, "Running"),
        ("silent", silent_port, 10249, "Running"),
        ("gone", KUBELET, 10249, "Running"),
        ("pending", KUBELET, 10249, "Pending"),
        ("elsewhere", KUBELET, 1, "Running"),
    ] {
        let pod = pod(name, "deltaproxy", port, phase);
        scene.control.api().apply_all(&[node(name, kubelet), pod]);
    }
    scene.run_pods(&["deltaproxy-elsewhere".to_owned()]);

    for line in UNREADABLE.lines() {
        let columns: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [code, args, texts @ ..] = &columns[..] else {
            panic!("not three columns: {line}");
        };
        let args: Vec<&str> = args.split(' ').collect();
        let started = Instant::now();
        scene.fails(code.parse().unwrap(), &args, texts);
        assert!(started.elapsed() < PATIENCE, "{line}");
    }

    // The others are shown, and none of these stops them.
    let all = scene.run(&["status", "--all-nodes", "--request-timeout=2s"]);
    assert_eq!(all.code, Some(2));
    let well = "1 of 7 nodes are well: 1 with deltaproxy 0.1.0, nft\n";
    check(&all.stdout, well);
    for node in ["down", "silent", "gone", "pending", "elsewhere"] {
        let mut lines = all.stdout.lines();
        let line = lines.find(|line| line.starts_with(node)).unwrap();
        check(line, "   unknown   ");
    }
    check(&all.stderr, "the state of 5 of 7 nodes is unknown");
}

/// A user without permissions is shown each that is missing.
fn check_permissions(scene: &Scene) {
    let as_user = |args: &[&str]| {
        let kubeconfig = scene.control.proxy_kubeconfig();
        scene.run_as(&kubeconfig, Path::new(PROGRAM), args).stderr
    };
    let said = as_user(&["services", "--node=node1"]);
    check(&said, "the API server does not list Pods: ");
    check(&said, "hint: allow the user to list Pods");
    let allow = |rules: Value| {
        scene.control.api().apply_all(&[
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "reader"}, "rules": rules,
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "reader"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                            "name": "reader"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                              "name": "system:kube-proxy"}],
            }),
        ]);
    };
    let list = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
    allow(json!([list]));
    eventually(PATIENCE, || {
        let said = as_user(&["services", "--node=node1"]);
        let forbidden = "the API server forbids portforward of Pod kube-system/deltaproxy-node1";
        ensure(said.contains(forbidden), || said.clone())
    });
    let said = as_user(&["services", "--node=node2"]);
    check(&said, "forbids exec of Pod kube-system/kube-proxy-node2");
    check(
        &said,
        "hint: allow the user to get and create pods/exec in namespace kube-system",
    );
    // Those of deploy/docs/privileges.md.
    let streams = json!({"apiGroups": [""], "resources": ["pods/portforward", "pods/exec"],
                         "verbs": ["get", "create"]});
    allow(json!([list, streams]));
    for node in ["node1", "node2"] {
        eventually(PATIENCE, || {
            let said = as_user(&["services", "--node", node]);
            ensure(!said.contains("error:"), || said.clone())
        });
    }
}

/// Number of simulated nodes.
const NODES: u16 = 200;

/// Port of the first of them; each has one of its own, as they are in one network.
const FIRST_PORT: u16 = 20_000;

/// Serves a page for each path, at one port, compressed as those of a daemon.
fn serve(listener: TcpListener, pages: [(&'static str, Arc<[u8]>); 2]) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            let _ = BufReader::new(&stream).read_line(&mut head);
            let page = pages.iter().find(|(path, _)| head.contains(path));
            let body = page.map_or(&[][..], |(_, body)| body);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(body);
        }
    });
}

fn compressed(text: &str) -> Arc<[u8]> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().into()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one cluster for all commands")]
fn two_hundred_nodes_are_compared() {
    needs!(Nodes);
    let scene = Scene::new();
    let loopback: SocketAddr = "127.0.0.1:10249".parse().unwrap();
    let [(_, rules), (_, status)] =
        ["/rules", "/status"].map(|path| http::get(&scene.node, loopback, path).unwrap());
    // One endpoint of two is missing on some nodes.
    let lost = "shop/dns:dns -> 10.4.1.81:5353";
    let is_lost = |line: &&str| line.contains(lost);
    assert!(rules.lines().any(|line| is_lost(&line)), "{rules}");
    let fewer: Vec<&str> = rules.lines().filter(|line| !is_lost(line)).collect();
    let fewer = fewer.join("\n") + "\n";
    let mut failing: Value = serde_json::from_str(&status).unwrap();
    failing["problems"] = json!([{"summary": "IPv4: 3 syncs in a row failed", "isFailure": true}]);
    let usual = [compressed(&rules), compressed(&status)];
    let odd = [compressed(&fewer), compressed(&failing.to_string())];
    let mut objects = Vec::new();
    let mut names = Vec::new();
    for number in 0..NODES {
        let name = format!("node{number}");
        let listener = scene
            .node
            .enter(|| TcpListener::bind(("127.0.0.1", FIRST_PORT + number)).unwrap());
        let is_odd = [17, 41].contains(&number);
        let [rules, status] = if is_odd { &odd } else { &usual };
        let pages = [
            ("/rules", Arc::clone(rules)),
            ("/status", Arc::clone(status)),
        ];
        serve(listener, pages);
        objects.push(node(&name, KUBELET));
        objects.push(pod(&name, "deltaproxy", FIRST_PORT + number, "Running"));
        names.push(format!("deltaproxy-{name}"));
    }
    scene.control.api().apply_all(&objects);
    scene.run_pods(&names);

    let all = scene.run_timed(&["status"]);
    assert_eq!(all.code, Some(1), "{all:#?}");
    assert_eq!(
        all.stdout,
        "NODE     STATE     PROBLEM
node17   FAILURE   IPv4: 3 syncs in a row failed
node41   FAILURE   IPv4: 3 syncs in a row failed
198 of 200 nodes are well: 198 with deltaproxy 0.1.0, nft
"
    );
    // On a terminal, a line counts the answers.
    let shown = format!("'{PROGRAM}' status --all-nodes");
    let args = ["--quiet", "--command", &shown, "/dev/null"];
    let shown = scene.run_as(&scene.control.kubeconfig(), Path::new("script"), &args);
    check(&shown.stdout, "\r7 of 200 nodes have answered");
    check(&shown.stdout, "\r200 of 200 nodes have answered");
    let compared = scene.run_timed(&["services"]);
    assert_eq!(compared.code, Some(1), "{compared:#?}");
    assert_eq!(
        compared.stdout,
        "shop/dns:dns/udp: 198 nodes have 2 endpoints; node17, node41 have 1\n"
    );
    let explained = scene.run_timed(&["explain", "shop/dns:dns"]);
    let said = &explained.stderr;
    assert_eq!(explained.code, Some(1), "{said}");
    assert_eq!(
        explained.stdout,
        "10.96.0.10:53/udp from a pod, the node or outside: 198 nodes: 2 endpoints answer; \
         node17, node41: 10.4.0.81:5353 answers; routed normally: jumps to \
         `KUBE-SVC-4XI5CTFPAP7AFMBM`, where no rule applies\n"
    );
}

#[test]
fn a_machine_without_rules_is_not_a_node() {
    needs!(Kernel);
    let laptop = Netns::new("laptop");
    let path = std::env::var("PATH").unwrap();
    // On many a laptop there are no iptables binaries.
    for (path, why) in [
        (&*path, "it has neither deltaproxy nor rules"),
        ("/nonexistent", "cannot start `iptables`: "),
    ] {
        for args in [&["services"][..], &["explain", "shop/web"]] {
            let mut command = laptop.command("env");
            let ran = Ran::of(command.arg(format!("PATH={path}")).arg(PROGRAM).args(args));
            let error = format!("error: this machine is not a node: {why}");
            ran.fails(2, &[&error, "--node NAME"]);
        }
    }
    // It has no --node.
    let mut command = laptop.command("env");
    command.args(["PATH=/nonexistent", PROGRAM, "diff"]);
    command.args(["--manifests=deploy/examples", "--hostname-override=node1"]);
    let said = Ran::of(&mut command).stderr;
    check(&said, "error: cannot start `iptables`: ");
    assert!(!said.contains("--node "), "{said}");
}
