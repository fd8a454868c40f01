//! Connections to Services by the counters of the kernel: `--service-metrics` and
//! `services --counters`.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::support::daemon::{Backend, Daemon, backend_programs, real_program};
use crate::support::needs;
use crate::support::node::{Node, SHOP};
use crate::support::process::run;
use crate::support::program::run_in;
use crate::support::servers::{Server, tcp_request};
use crate::support::wait::{PATIENCE, ensure, eventually};
use serde_json::Value;

const FRONTEND: &str = "10.96.0.10:80";

const SERIES: &str = "deltaproxy_service_connections_total";

/// A node on which the endpoints of the Service run.
struct Shop {
    node: Node,
    _servers: Vec<Server>,
}

impl Shop {
    fn open(backend: Backend) -> Self {
        let node = Node::new(backend);
        node.netns.address("lo", "10.1.0.1/32");
        let servers = [11, 12, 13].map(|last| {
            node.netns.address("lo", &format!("10.4.0.{last}/32"));
            let address = format!("10.4.0.{last}:8080").parse().unwrap();
            Server::start(&node.netns, &last.to_string(), address)
        });
        node.netns.ip("route add 10.96.0.0/12 dev lo src 10.1.0.1");
        Self {
            node,
            _servers: servers.into(),
        }
    }

    /// With so many other Services that their rules make up a tree of chains.
    fn open_among_others(backend: Backend) -> Self {
        let shop = Self::open(backend);
        let others = (1..=20).map(|number| {
            let address = format!("10.96.1.{number}");
            let other = SHOP.replace("shop", &format!("other{number}"));
            format!("{}---\n", other.replace("10.96.0.10", &address))
        });
        shop.node.write(&(others.collect::<String>() + SHOP));
        shop
    }

    fn start(&self, flags: &[&str]) -> Daemon {
        let bin = backend_programs(self.node.backend);
        self.node.start_with(bin, flags)
    }

    fn connect(&self, times: usize) {
        let to: SocketAddr = FRONTEND.parse().unwrap();
        for _ in 0..times {
            let reply = tcp_request(&self.node.netns, to);
            reply.server().unwrap();
        }
    }

    /// The document of the Service as `services --counters` prints it.
    fn counted(&self) -> Value {
        let printed = self.services(&["-o", "json"]);
        let document: Value = serde_json::from_str(&printed).unwrap();
        document["servicePorts"][0].clone()
    }

    fn services(&self, more: &[&str]) -> String {
        let backend = format!("--iptables-backend={}", self.node.backend.name());
        let args = [&["services", "--counters", &backend], more].concat();
        run_in(&self.node.netns, &args).success()
    }

    /// The exported connections of the Service.
    fn exported(&self) -> Option<u64> {
        let metrics = self.node.metrics();
        let series = format!("{SERIES}{{namespace=\"default\",port=\"http\",service=\"shop\"}} ");
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix(&series)?.parse().ok())
    }

    #[track_caller]
    fn wait_for_exported(&self, connections: u64) {
        eventually(READING, || {
            let found = self.exported();
            ensure(found == Some(connections), || format!("{found:?}"))
        });
    }
}

/// Time within which a reading follows the last one: half a minute, or 200 times what the last one
/// took, which on a busy machine may be a second.
const READING: Duration = Duration::from_secs(240);

/// Runs a test on both backends at the same time: readings are half a minute apart.
fn on_both(test: fn(Backend)) {
    needs!(Kernel);
    thread::scope(|scope| {
        for backend in [Backend::Nft, Backend::Legacy] {
            scope.spawn(move || test(backend));
        }
    });
}

/// Connections are counted on after an endpoint was replaced, and after a restart of the daemon;
/// the shares of the endpoints add up to all connections.
#[test]
fn connections_are_counted_across_changes_and_restarts() {
    on_both(|backend| {
        let shop = Shop::open(backend);
        let mut daemon = shop.start(&[]);
        shop.node.wait_for_rule("--to-destination 10.4.0.12:8080");
        shop.connect(30);
        let before = shop.counted();
        assert_eq!(before["connections"], 30, "{before}");
        let sent: Vec<u64> = (0..2)
            .map(|index| before["endpoints"][index]["connections"].as_u64().unwrap())
            .collect();
        assert_eq!(sent.iter().sum::<u64>(), 30, "{before}");
        let ratio = |index: usize| {
            let ratio = before["endpoints"][index]["observedRatio"].as_f64();
            ratio.unwrap()
        };
        assert!((ratio(0) + ratio(1) - 1.0).abs() < 1e-9, "{before}");
        assert!(before["lastFullSync"].is_string(), "{before}");

        shop.node.write(&SHOP.replace("10.4.0.12", "10.4.0.13"));
        shop.node.wait_for_rule("--to-destination 10.4.0.13:8080");
        assert_eq!(shop.counted()["connections"], 30);
        daemon.terminate();
        assert!(!shop.node.metrics().contains(SERIES));
        let _again = shop.start(&["--service-metrics"]);
        // The first reading of a process is at its start, and begins with what the kernel has.
        shop.wait_for_exported(30);
        shop.connect(1);
        assert_eq!(shop.counted()["connections"], 31);

        let table = shop.services(&[]);
        assert!(table.contains("default     shop:http   31"), "{table}");
        let wide = shop.services(&["-o", "wide"]);
        assert!(wide.contains("10.4.0.13:8080"), "{wide}");
        assert!(wide.contains("50.0%"), "{wide}");
    });
}

/// Rules that are written again begin at 0, and the exported counter goes on. Those of a tree are
/// in several chains.
#[test]
fn a_full_restore_does_not_decrease_the_exported_connections() {
    on_both(|backend| {
        let shop = Shop::open_among_others(backend);
        let daemon = shop.start(&["--service-metrics", "--service-dispatch=tree"]);
        shop.node.wait_for_rule(":KUBE-SVC-10.96.");
        shop.connect(30);
        shop.wait_for_exported(30);
        // Without its chains, the nat table is written again.
        let flush = "*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n";
        shop.node.replace_tables(flush);
        eventually(PATIENCE, || {
            let is_full = daemon.log().contains("flushed");
            ensure(is_full, || daemon.log())
        });
        shop.node.wait_for_rule(":KUBE-SVC-10.96.");
        let shops = |shop: &Shop| {
            let table = shop.services(&["shop"]);
            let mut cells = table.split_whitespace().rev();
            cells.next().map(str::to_owned)
        };
        assert_eq!(shops(&shop).as_deref(), Some("0"));
        shop.connect(5);
        shop.wait_for_exported(35);
    });
}

#[test]
fn without_service_metrics_there_are_no_such_series() {
    needs!(Kernel);
    let shop = Shop::open(Backend::Nft);
    let _daemon = shop.start(&[]);
    shop.node.wait_for_rule("--to-destination 10.4.0.12:8080");
    let metrics = shop.node.metrics();
    assert!(metrics.contains("deltaproxy_"), "{metrics}");
    assert!(!metrics.contains("service_connections"), "{metrics}");
}

/// Dumps with counters need no root, and those without are named.
#[test]
fn counters_of_a_dump_are_read() {
    needs!(Kernel);
    let shop = Shop::open(Backend::Nft);
    let _daemon = shop.start(&[]);
    shop.node.wait_for_rule("--to-destination 10.4.0.12:8080");
    shop.connect(3);
    let save = real_program(Backend::Nft, "iptables-save");
    let file = shop.node.manifests.path().join(".dump");
    let path = file.to_str().unwrap();
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(&run(shop.node.netns.command(&save).arg("-c")));
    let table = shop.services(&["--from-save", path]);
    assert!(table.contains("shop:http   3"), "{table}");
    // An endpoint whose rule is not in the reading has no counter, which is not one of 0.
    let mut counted = run(shop.node.netns.command(&save).arg("-c"));
    let jump = counted.find(" -j KUBE-SEP-").unwrap();
    let begin = counted[..jump].rfind('\n').unwrap() + 1;
    let end = counted[begin..].find("-A").unwrap() + begin;
    counted.replace_range(begin..end, "");
    write(&counted);
    let document = shop.services(&["--from-save", path, "-o", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let endpoints = &document["servicePorts"][0]["endpoints"];
    let counts = [0, 1].map(|index| endpoints[index]["connections"].as_u64());
    assert!(
        counts.contains(&None) && counts.iter().any(Option::is_some),
        "{document}"
    );
    let wide = shop.services(&["--from-save", path, "-o", "wide"]);
    let rows = wide
        .lines()
        .map(|line| line.split_whitespace().skip(4).take(2).collect());
    let rows: Vec<Vec<&str>> = rows.collect();
    assert_eq!(
        rows.iter().filter(|row| **row == ["-", "-"]).count(),
        1,
        "{wide}"
    );
    write(&run(&mut shop.node.netns.command(&save)));
    let args = ["services", "--counters", "--from-save", path];
    run_in(&shop.node.netns, &args).fails(1, &["iptables-save -c"]);
}
