//! kube-proxy, then deltaproxy, then kube-proxy on one node, under new connections all the time:
//! none may fail.
//!
//! The guides `deploy/docs/replace.md`, `rollback.md` and `canary.md` promise that.

use crate::support;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::lab::{Lab, NODE_ADDRESSES};
use crate::support::left_out::is_due;
use crate::support::netns::{Netns, move_into};
use crate::support::rules::{Family, plain};
use crate::support::servers::{Reply, Transport, ask};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects, on_both_backends, tell};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Between two connections of a client. Two clients make 200 connections a second.
const PACE: Duration = Duration::from_millis(10);

/// Connections before and after each exchange of proxies: about two and three seconds.
pub(crate) const BEFORE: usize = 400;
pub(crate) const AFTER: usize = 600;

/// A connection that takes longer has failed. Long enough for three retransmissions on a busy
/// machine; a datagram is never sent again.
const ANSWER: Duration = Duration::from_secs(8);

const TCP_NODE_PORT: u16 = 30080;
const UDP_NODE_PORT: u16 = 30053;

on_both_backends!(Upstream, no_connection_fails_while_proxies_are_exchanged);

/// Order of the end of one proxy and the start of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exchange {
    /// As one DaemonSet rolls.
    EndFirst,
    /// As between two DaemonSets, which do not wait for each other.
    StartFirst,
}

fn no_connection_fails_while_proxies_are_exchanged(backend: Backend) {
    // It takes minutes: the backends take turns, each on the day of the other one's shadow.
    if !is_due(u64::from(backend == Backend::Nft), 2) {
        return;
    }
    let lab = lab(backend);
    let kube_proxy = Program::kube_proxy();
    let mut proxy = start(&lab, &kube_proxy, FLAT);
    wait_for_marker(&lab, 0);
    let before = rules(&lab);
    let deltaproxy = &Program::Deltaproxy;
    for (number, exchange, next, dispatch) in [
        (1, Exchange::EndFirst, deltaproxy, FLAT),
        (2, Exchange::EndFirst, deltaproxy, TREE),
        (3, Exchange::EndFirst, &kube_proxy, FLAT),
        (4, Exchange::EndFirst, deltaproxy, TREE),
        (5, Exchange::EndFirst, deltaproxy, FLAT),
        (6, Exchange::StartFirst, &kube_proxy, FLAT),
        (7, Exchange::StartFirst, deltaproxy, FLAT),
        (8, Exchange::StartFirst, &kube_proxy, FLAT),
    ] {
        let traffic = Traffic::start(&lab);
        traffic.wait_for(BEFORE);
        match exchange {
            Exchange::EndFirst => {
                proxy.terminate();
                proxy = start(&lab, next, dispatch);
            }
            Exchange::StartFirst => {
                let both = start(&lab, next, dispatch);
                wait_for_log(&both, next);
                proxy.terminate();
                proxy = both;
            }
        }
        if number == 1 {
            only_dispatch_chains_are_written(&proxy);
        }
        wait_for_marker(&lab, number);
        serves_metrics(&lab, next);
        wait_for_trees(&lab, dispatch == TREE);
        traffic.wait_for(AFTER);
        let (connections, failures) = traffic.end();
        let name = if next.is_deltaproxy() {
            "to deltaproxy"
        } else {
            "to kube-proxy"
        };
        let whole = format!("{name}, {dispatch}, {exchange:?}, on {}", backend.name());
        assert!(
            failures.is_empty(),
            "{whole}: {} of {connections} connections failed: {failures:#?}\n{}",
            failures.len(),
            proxy.log()
        );
        tell(format_args!(
            "swap: {whole}: {connections} connections, none failed"
        ));
        if dispatch == FLAT {
            // Both write the same rules, and of a tree nothing stays behind: not even a chain,
            // which save programs print as a line.
            assert_eq!(rules(&lab), before, "{whole}");
        }
    }
}

/// Checks what deltaproxy writes where a kube-proxy has ended, which has the rules of dispatch
/// chains in random order: those chains and nothing else, in both families.
#[track_caller]
fn only_dispatch_chains_are_written(deltaproxy: &Daemon) {
    wait_for_log(deltaproxy, &Program::Deltaproxy);
    let log = deltaproxy.log();
    assert!(!log.contains("scope=\"full\""), "{log}");
    for family in ["IPv4", "IPv6"] {
        let adoption = format!("family={family} scope=\"adoption\"");
        let adopted = log.lines().find(|line| line.contains(&adoption));
        let (_, chains) = adopted.expect(&log).split_once(" chains=").unwrap();
        let count: usize = chains.split(' ').next().unwrap().parse().unwrap();
        assert!(count <= 2, "{family}: {log}");
    }
}

/// The table of mode nftables is removed after the first sync.
#[test]
fn no_connection_fails_from_mode_nftables() {
    needs!(Upstream);
    let lab = lab(Backend::Nft);
    let kube_proxy = Program::kube_proxy();
    let mut proxy = lab.start(&kube_proxy, &["-v=4", "--proxy-mode=nftables"]);
    let has_tables = |wanted: bool| {
        eventually(PATIENCE, || {
            let found = shown_tables(&lab);
            let names = ["table ip kube-proxy", "table ip6 kube-proxy"];
            let are_there = names.map(|name| found.contains(name));
            ensure(are_there == [wanted; 2], || found)
        });
    };
    has_tables(true);
    eventually(PATIENCE, || {
        let log = proxy.log();
        ensure(log.matches("SyncProxyRules complete").count() >= 2, || log)
    });
    let traffic = Traffic::start(&lab);
    traffic.wait_for(BEFORE);
    proxy.terminate();
    proxy = start(&lab, &Program::Deltaproxy, FLAT);
    wait_for_marker(&lab, 0);
    has_tables(false);
    traffic.wait_for(AFTER);
    let (connections, failures) = traffic.end();
    assert!(failures.is_empty(), "{failures:#?}\n{}", proxy.log());
    tell(format_args!(
        "swap: from mode nftables to deltaproxy: {connections} connections, none failed"
    ));
}

fn shown_tables(lab: &Lab) -> String {
    let mut nft = lab.node.command("nft");
    let output = nft.args(["list", "tables"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Values of `--service-dispatch`.
pub(crate) const FLAT: &str = "flat";
const TREE: &str = "tree";

/// Waits until the rules of both families have chains of dispatch trees, for cluster IPs and for
/// external IPs, or have none. Those of the last proxy are still there when a marker appears: its
/// rule is in the table `filter`, which is committed before `nat`.
fn wait_for_trees(lab: &Lab, are_wanted: bool) {
    for family in Family::ALL {
        eventually(PATIENCE, || {
            let rules = lab.rules(family);
            let found = [":KUBE-SVC-", ":KUBE-EXT-"].map(|start| {
                let mut chains = rules.lines().filter(|line| line.starts_with(start));
                chains.any(|line| line.contains('/'))
            });
            ensure(found == [are_wanted; 2], || rules)
        });
    }
}

/// Waits until a proxy that starts next to another one has dealt with the rules: until then, it
/// would not matter.
fn wait_for_log(proxy: &Daemon, program: &Program) {
    let text = if program.is_deltaproxy() {
        // Nothing to write, or adopted rules differ.
        "adopted"
    } else {
        "SyncProxyRules complete"
    };
    eventually(PATIENCE, || {
        let log = proxy.log();
        ensure(log.matches(text).count() >= 2, || log)
    });
}

/// Waits until the metrics server is that of a program. It may wait for the port of the one before.
pub(crate) fn serves_metrics(lab: &Lab, program: &Program) {
    eventually(PATIENCE, || {
        let (_, page) = http::get(&lab.node, Daemon::METRICS, "/metrics")?;
        let is_deltaproxy = page.contains("\ndeltaproxy_");
        ensure(is_deltaproxy == program.is_deltaproxy(), || page)
    });
}

/// Rules and chains of both families, sorted, without counters and those of the markers.
fn rules(lab: &Lab) -> Vec<String> {
    let saved = Family::ALL.map(|family| lab.rules(family));
    let lines = saved.iter().flat_map(|text| plain(text));
    let lines = lines.filter(|line| !line.contains("default/marker-"));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Services besides those that are connected to, so that a full sync takes its time.
const MORE_SERVICES: usize = 200;

/// A node with one Service for TCP and one for UDP, both with cluster IPs and node ports of both
/// families.
pub(crate) fn lab(backend: Backend) -> Lab {
    let lab = Lab::new(backend);
    let api = lab.control.api();
    for (name, protocol, number, node_port) in [
        ("web", "TCP", 80, TCP_NODE_PORT),
        ("dns", "UDP", 53, UDP_NODE_PORT),
    ] {
        let service = service(name, protocol, number, node_port);
        let slices = [
            ["10.4.0.11", "10.4.0.12"],
            ["fd00:10:4::11", "fd00:10:4::12"],
        ]
        .map(|addresses| objects::slice(&service, &addresses));
        api.apply(&service);
        api.apply_all(&slices);
    }
    let more = (0..MORE_SERVICES).flat_map(|number| {
        let ips = [
            format!("10.97.0.{number}"),
            format!("fd00:10:96::{:x}", 0x1000 + number),
        ];
        let service = objects::service(
            &format!("more-{number}"),
            json!({
                "clusterIP": ips[0], "clusterIPs": ips, "sessionAffinity": "ClientIP",
                "externalIPs": [format!("192.0.2.{number}"), format!("2001:db8::{number:x}")],
                "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
            }),
        );
        let slices = ["10.4.1.1", "fd00:10:4:1::1"].map(|ip| objects::slice(&service, &[ip]));
        std::iter::once(service).chain(slices)
    });
    api.apply_all(&more.collect::<Vec<_>>());
    lab
}

fn service(name: &str, protocol: &str, number: u16, node_port: u16) -> Value {
    let ips = [format!("10.96.0.{number}"), format!("fd00:10:96::{number}")];
    objects::service(
        name,
        json!({
            "type": "NodePort",
            "clusterIP": ips[0],
            "clusterIPs": ips,
            "ipFamilyPolicy": "RequireDualStack",
            "ipFamilies": ["IPv4", "IPv6"],
            "ports": [{
                "name": name, "protocol": protocol, "port": number,
                "targetPort": support::lab::POD_PORT, "nodePort": node_port,
            }],
        }),
    )
}

pub(crate) fn start(lab: &Lab, program: &Program, dispatch: &str) -> Daemon {
    let dispatch = format!("--service-dispatch={dispatch}");
    let mut flags = vec!["-v=4"];
    if program.is_deltaproxy() {
        flags.push(&dispatch);
    }
    lab.start(program, &flags)
}

/// Adds a Service and waits until it is in the rules of both families.
pub(crate) fn wait_for_marker(lab: &Lab, number: usize) {
    let marker = format!("marker-{number}");
    let service = objects::service(
        &marker,
        json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
    );
    lab.control.api().apply(&service);
    for family in Family::ALL {
        eventually(PATIENCE, || {
            let rules = lab.rules(family);
            let is_there = rules.contains(&format!("default/{marker}:http"));
            let all = ["default/web:web", "default/more-199:http"];
            ensure(
                is_there && all.iter().all(|text| rules.contains(text)),
                || rules,
            )
        });
    }
}

/// Addresses that a Pod connects to, and a host outside the cluster.
fn frontends() -> [Vec<(SocketAddr, Transport)>; 2] {
    let at = |ip: &str, port: u16| SocketAddr::new(ip.parse::<IpAddr>().unwrap(), port);
    let [v4, v6] = NODE_ADDRESSES;
    [
        vec![
            (at("10.96.0.80", 80), Transport::Tcp),
            (at("10.96.0.53", 53), Transport::Udp),
            (at("fd00:10:96::80", 80), Transport::Tcp),
            (at("fd00:10:96::53", 53), Transport::Udp),
        ],
        vec![
            (at(v4, TCP_NODE_PORT), Transport::Tcp),
            (at(v4, UDP_NODE_PORT), Transport::Udp),
            (at(v6, TCP_NODE_PORT), Transport::Tcp),
            (at(v6, UDP_NODE_PORT), Transport::Udp),
        ],
    ]
}

/// Clients that open connections at a steady pace until the end.
pub(crate) struct Traffic {
    is_over: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Traffic {
    /// Starts one client in a Pod, for cluster IPs, and one outside, for node ports.
    pub(crate) fn start(lab: &Lab) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let opened = Arc::new(AtomicUsize::new(0));
        let places: [&Netns; 2] = [&lab.client.netns, &lab.outside];
        let clients = places.into_iter().zip(frontends());
        let clients = clients.map(|(netns, frontends)| {
            let (path, is_over, opened) = (netns.path(), is_over.clone(), opened.clone());
            std::thread::spawn(move || {
                move_into(&path);
                connect(&frontends, &is_over, &opened)
            })
        });
        Self {
            clients: clients.collect(),
            is_over,
            opened,
        }
    }

    /// Waits for this many more connections.
    pub(crate) fn wait_for(&self, connections: usize) {
        let goal = self.opened.load(Ordering::Relaxed) + connections;
        eventually(PATIENCE, || {
            let opened = self.opened.load(Ordering::Relaxed);
            ensure(opened >= goal, || format!("{opened} of {goal} connections"))
        });
    }

    /// Stops all clients. Returns the number of connections, and those that failed.
    pub(crate) fn end(self) -> (usize, Vec<String>) {
        self.is_over.store(true, Ordering::Relaxed);
        let clients = self.clients.into_iter();
        let failures = clients.flat_map(|client| client.join().unwrap()).collect();
        (self.opened.load(Ordering::Relaxed), failures)
    }
}

/// Opens connections to each of these in turn, and returns the failures.
#[tokio::main(flavor = "current_thread")]
async fn connect(
    frontends: &[(SocketAddr, Transport)],
    is_over: &AtomicBool,
    opened: &AtomicUsize,
) -> Vec<String> {
    let mut pace = tokio::time::interval(PACE);
    let (mut connections, mut failures) = (JoinSet::new(), Vec::new());
    for (to, transport) in frontends.iter().copied().cycle() {
        pace.tick().await;
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        connections.spawn(async move {
            let (reply, _) = ask(transport, to, ANSWER).await;
            let is_answered = matches!(reply, Reply::Answer { .. });
            (!is_answered).then(|| format!("{to} {transport:?}: {reply:?}"))
        });
        opened.fetch_add(1, Ordering::Relaxed);
        // In an hour there are hundreds of thousands.
        while let Some(ended) = connections.try_join_next() {
            failures.extend(ended.unwrap());
        }
    }
    failures.extend(connections.join_all().await.into_iter().flatten());
    failures
}
