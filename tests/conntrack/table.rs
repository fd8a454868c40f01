//! The kernel's table itself: what it tells of, and what so many flows cost.

use std::fs;

use deltaproxy::testing::conntrack::{Filter, Flow};
use deltaproxy::testing::host::{Conntrack, FlowTable};
use deltaproxy::testing::net::IpFamily;

use super::scene::{B, Scene};
use crate::support::daemon::{Backend, Daemon};
use crate::support::netns::Netns;
use crate::support::process::{memory, run};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs};

/// The most memory that a process has had, in KiB.
fn peak(daemon: &Daemon) -> u64 {
    memory(daemon.id(), "VmHWM")
}

/// So many flows, half of them by way of the Service, and half of these to an endpoint.
fn entries(count: u32, endpoint: &str) -> String {
    let entry = |number: u32| {
        let [_, x, y, z] = number.to_be_bytes();
        let client = format!("10.{}.{y}.{z}", 128 + x);
        let (to, answers) = match number % 4 {
            0 => ("10.96.0.10", endpoint),
            1 => ("10.96.0.10", "10.4.0.12"),
            _ => ("10.200.0.1", "10.200.0.1"),
        };
        format!(
            "-A -t 600 -u SEEN_REPLY,ASSURED -s {client} -d {to} -r {answers} -q {client} -p udp \
             --sport 40000 --dport 8080 --reply-port-src 8080 --reply-port-dst 40000\n"
        )
    };
    (0..count).map(entry).collect()
}

#[test]
fn the_kernel_tells_only_of_what_it_is_asked_for() {
    needs!(Kernel);
    let netns = Netns::new("table");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("entries");
    let in_zone = entries(1, "10.4.0.11").replace("-p udp", "-w 7 -p udp");
    let tcp = "-A -t 600 -u SEEN_REPLY,ASSURED -s 10.128.0.1 -d 10.96.0.10 -r 10.4.0.11 \
         -q 10.128.0.1 -p tcp --sport 40000 --dport 8080 --state ESTABLISHED \
         --reply-port-src 8080 --reply-port-dst 40000\n";
    let v6 = "-A -t 600 -u SEEN_REPLY,ASSURED -s fd00::1 -d fd00:10:96::a -r fd00:10:4::11 \
         -q fd00::1 -p udp --sport 40000 --dport 8080 --reply-port-src 8080 \
         --reply-port-dst 40000\n";
    let text = entries(8, "10.4.0.11") + &in_zone + tcp + v6;
    fs::write(&file, text).expect("write a file");
    run(netns.command("conntrack").arg("-R").arg(&file));
    let sweep = |family, filter, is_stale: fn(&Flow) -> bool| {
        netns.enter(|| {
            let mut seen = 0;
            let mut ask = |flow: &Flow| {
                seen += 1;
                is_stale(flow)
            };
            let (deleted, result) = Conntrack::default().sweep(family, &[filter], &mut ask);
            result.expect("a whole sweep");
            (seen, deleted)
        })
    };
    let to = Filter::To("10.96.0.10:8080".parse().unwrap());
    let to_v6 = Filter::To("[fd00:10:96::a]:8080".parse().unwrap());
    let port = |port: u16| Filter::ToPort(port.try_into().unwrap());
    for (family, filter, seen) in [
        (IpFamily::V4, Filter::Everything, 9),
        (IpFamily::V4, to, 5),
        (IpFamily::V4, port(8080), 9),
        (IpFamily::V4, port(8081), 0),
        (IpFamily::V6, Filter::Everything, 1),
        (IpFamily::V6, to_v6, 1),
        (IpFamily::V6, port(8080), 1),
        (IpFamily::V6, port(8081), 0),
    ] {
        assert_eq!(sweep(family, filter, |_| false), (seen, 0), "{filter:?}");
    }
    assert_eq!(sweep(IpFamily::V4, to, |_| true), (5, 5));
    assert_eq!(sweep(IpFamily::V4, Filter::Everything, |_| true), (4, 4));
    assert_eq!(sweep(IpFamily::V6, to_v6, |_| true), (1, 1));
    let left = run(netns.command("conntrack").arg("-L"));
    assert!(
        left.starts_with("tcp") && left.lines().count() == 1,
        "{left}"
    );
}

const COUNT: u32 = 100_000;

#[test]
fn a_hundred_thousand_flows_take_no_memory() {
    needs!(Kernel);
    let scene = Scene::new(Backend::Nft);
    let daemon = scene.start();
    let file = scene.node.manifests.path().join(".entries");
    fs::write(&file, entries(COUNT, "10.4.0.11")).expect("write a file");
    run(scene.node.netns.command("conntrack").arg("-R").arg(&file));
    let left = || {
        let text = run(scene.node.netns.command("conntrack").arg("-C"));
        text.trim().parse::<u32>().expect("a number")
    };
    assert!(left() >= COUNT, "{}", left());
    let before = peak(&daemon);
    scene.change(&[B]);
    eventually(PATIENCE, || {
        let count = left();
        ensure(count < COUNT * 3 / 4 + 100, || {
            format!("{count} flows left")
        })
    });
    assert!(left() >= COUNT * 3 / 4, "{}", left());
    let line = format!(
        "kubeproxy_conntrack_reconciler_deleted_entries_total{{ip_family=\"IPv4\"}} {}",
        COUNT / 4
    );
    eventually(PATIENCE, || {
        ensure(scene.node.metric(&line), || line.clone())
    });
    // The kernel sums up loosely: the peak can be seen to fall by some pages.
    let grown = peak(&daemon).saturating_sub(before);
    let name = "kubeproxy_conntrack_reconciler_sync_duration_seconds_sum{ip_family=\"IPv4\"}";
    let seconds = http::value(&scene.node.metrics(), name).expect("a duration");
    println!("conntrack: {COUNT} flows, {seconds} s, {grown} KiB more at the peak");
    assert!(grown < 2048, "{grown} KiB");
}
