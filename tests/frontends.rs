//! A frontend that several Services ask for, with real packets: one of them has it, whatever the
//! order in which they arrived and the kind of sync.

use crate::support::daemon::{Backend, Daemon, real_program, wait_until_ok};
use crate::support::lab::Lab;
use crate::support::process::run;
use crate::support::program::run_in;
use crate::support::rules::Family;
use crate::support::servers::tcp_request;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, objects, on_both_backends};
use serde_json::json;

/// Enough that a random choice would show itself.
const REQUESTS: usize = 10;

on_both_backends!(Cluster, external_ips_do_not_take_over_cluster_ips);

fn external_ips_do_not_take_over_cluster_ips(backend: Backend) {
    let lab = Lab::new(backend);
    let api = lab.control.api();
    let victim = objects::service("victim", json!({"clusterIP": "10.96.1.1"}));
    let thief = objects::service(
        "a-thief",
        json!({"clusterIP": "10.96.1.66", "externalIPs": ["10.96.1.1", "203.0.113.66"]}),
    );
    let slices = [
        objects::slice(&victim, &["10.4.0.11"]),
        objects::slice(&thief, &["10.4.0.12"]),
    ];
    api.apply_all(&[victim.clone(), slices[0].clone()]);
    let mut daemon = lab.start_daemon();
    lab.wait_for_text(Family::V4, VICTIM);

    // The thief comes last, by a partial sync.
    api.apply_all(&[thief, slices[1].clone()]);
    lab.wait_for_text(Family::V4, "-d 203.0.113.66/32");
    all_are_answered_by(&lab, "a");
    // Adopted rules, and those of a full restore.
    for is_flushed in [false, true] {
        assert!(daemon.terminate().success());
        if is_flushed {
            flush(&lab, backend);
        }
        daemon = lab.start_daemon();
        lab.wait_for_text(Family::V4, VICTIM);
        wait_until_ok(&lab.node, "/healthz");
        all_are_answered_by(&lab, "a");
    }

    // The victim goes, and comes last.
    api.delete(&victim);
    lab.wait_until_gone(Family::V4, VICTIM);
    lab.wait_for_text(Family::V4, "-d 10.96.1.1/32");
    all_are_answered_by(&lab, "b");
    api.apply_all(&[victim, slices[0].clone()]);
    lab.wait_for_text(Family::V4, VICTIM);
    all_are_answered_by(&lab, "a");

    // The kernel has the rules before the process of the restore ends, and the daemon reports then.
    eventually(PATIENCE, || {
        let log = daemon.log();
        let reported = log.lines().filter(|line| line.contains(LOST)).count();
        // At the start, and when the victim came back.
        ensure(reported == 2, || format!("{reported} reports:\n{log}"))?;
        let page = http::metrics(&lab.node, Daemon::METRICS);
        let conflicts = "deltaproxy_frontend_conflicts{ip_family=\"IPv4\"}";
        ensure(http::count(&page, conflicts) == 1, || page)
    });
    commands_name_the_loser(&lab, backend);
    daemon.assert_running();
}

/// The comment of a rule that only the victim's traffic passes.
const VICTIM: &str = "default/victim:http cluster IP";
/// The log's words for the thief.
const LOST: &str = "Service `default/a-thief` gets no traffic for 10.96.1.1:80/tcp, which Service `default/victim` has";

#[track_caller]
fn all_are_answered_by(lab: &Lab, server: &str) {
    for _ in 0..REQUESTS {
        let reply = tcp_request(&lab.client.netns, "10.96.1.1:80".parse().unwrap());
        assert_eq!(reply.server(), Ok(server));
    }
}

/// Reads the kernel's rules and what the daemon on the node reports.
fn commands_name_the_loser(lab: &Lab, backend: Backend) {
    let run = |args: &[&str]| {
        let backend = format!("--iptables-backend={}", backend.name());
        let ran = run_in(&lab.node, &[args, &[&backend]].concat());
        ran.stdout + &ran.stderr
    };
    let said = run(&["services"]);
    let note = "`default/a-thief:http` has no rules for its external IP 10.96.1.1:80/tcp (IPv4): \
                Service `default/victim` comes first";
    assert!(said.contains(note), "{said}");
    let said = run(&["explain", "default/a-thief"]);
    let note = "conflict: `default/a-thief:http` declares it as external IP and has no rules";
    assert!(said.contains(note), "{said}");
}

fn flush(lab: &Lab, backend: Backend) {
    for table in ["nat", "filter", "mangle"] {
        for command in ["-F", "-X"] {
            let mut flush = lab.node.command(real_program(backend, "iptables"));
            run(flush.args(["-t", table, command]));
        }
    }
}
