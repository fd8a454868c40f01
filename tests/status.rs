//! Commands beside a running daemon: where they get rules and the state of the node, and what they
//! do without it.

use crate::status_pages::start;
use crate::support::daemon::Backend;
use crate::support::netns::Netns;
use crate::support::program::{PROGRAM, Ran, run_in};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, on_both_backends};
use serde_json::Value;

/// What commands print of the source of the rules.
const SOURCE: &str = " in rules of node1 (";

/// Runs a command that reads rules with the programs of the backend.
fn inspect(netns: &Netns, backend: Backend, args: &[&str]) -> Ran {
    let of_backend = ["--iptables-backend", backend.name()];
    let output = run_in(netns, &[args, &of_backend].concat());
    assert!(output.is_success(), "{output:#?}");
    output
}

on_both_backends!(Kernel, commands_read_the_daemon_like_the_kernel);

fn commands_read_the_daemon_like_the_kernel(backend: Backend) {
    let (netns, mut daemon) = start(backend, "127.0.0.1:10249");
    services_need_no_privileges(&netns);
    the_status_is_of_the_daemon(&netns, backend);
    let commands: [&[&str]; 2] = [
        &["services", "-o", "wide"],
        &["explain", "shop/storefront", "--verbose"],
    ];
    let from_daemon = commands.map(|args| inspect(&netns, backend, args));
    let from_kernel = commands.map(|args| {
        let args = [args, &["--kernel"]].concat();
        inspect(&netns, backend, &args)
    });
    for (daemon, kernel) in from_daemon.iter().zip(&from_kernel) {
        assert_eq!(daemon.stdout, kernel.stdout);
        assert!(daemon.stdout.contains("storefront"), "{daemon:#?}");
        let source = format!("rules of node1 ({}), written by deltaproxy", backend.name());
        assert!(daemon.stderr.contains(&source), "{daemon:#?}");
        assert!(!kernel.stderr.contains("rules of node1"), "{kernel:#?}");
    }
    let hint = "may drop packets: --kernel reads them";
    let [services, explain] = from_daemon.map(|output| output.stderr);
    assert!(services.contains(SOURCE), "{services}");
    assert!(explain.contains(hint), "{explain}");

    for args in [
        &["services", "-o", "json"][..],
        &["explain", "shop/storefront", "-o", "json"],
    ] {
        let output = inspect(&netns, backend, args);
        let document: Value = serde_json::from_str(&output.stdout).unwrap();
        let source = document["source"].as_str().unwrap();
        assert!(source.starts_with("rules of node1 ("), "{source}");
        assert!(document["observedAt"].is_string(), "{document}");
    }

    // A stopped daemon leaves its rules in the kernel.
    assert!(daemon.terminate().success());
    for (args, before) in commands.iter().zip(&from_kernel) {
        let output = inspect(&netns, backend, args);
        assert_eq!(output.stdout, before.stdout);
        assert!(!output.stderr.contains("rules of node1"), "{output:#?}");
    }
    let output = run_in(&netns, &["status"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    for expected in [
        "no state of deltaproxy at 127.0.0.1:10249",
        "hint: check that deltaproxy runs",
    ] {
        assert!(output.stderr.contains(expected), "{output:#?}");
    }
}

fn services_need_no_privileges(netns: &Netns) {
    let as_user = |args: &[&str]| {
        let mut command = netns.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", PROGRAM]);
        Ran::of(command.args(args))
    };
    let output = as_user(&["services"]);
    assert!(output.is_success(), "{output:#?}");
    assert!(output.stdout.contains("storefront"), "{output:#?}");
    assert!(!as_user(&["services", "--kernel"]).is_success());
}

fn the_status_is_of_the_daemon(netns: &Netns, backend: Backend) {
    let output = run_in(netns, &["status"]);
    let text = &output.stdout;
    assert_eq!(output.code, Some(0), "{text}{}", output.stderr);
    assert!(text.starts_with("node1: well\n"), "{text}");
    let row = format!("backend         {}, iptables 1.", backend.name());
    assert!(text.contains(&row), "{text}");
    assert!(
        text.contains("chosen by       plain names in PATH"),
        "{text}"
    );

    let json = run_in(netns, &["status", "-o", "json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["families"][0]["lastFull"]["reason"], "first");
}

#[test]
fn another_port_is_found_by_its_flag_or_in_the_file() {
    needs!(Kernel);
    let (netns, _daemon) = start(Backend::Nft, "0.0.0.0:9090");
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                  metricsBindAddress: 0.0.0.0:9090\n";
    std::fs::write(file.path(), config).unwrap();
    let file = format!("--config={}", file.path().display());
    for flag in ["--metrics-bind-address=0.0.0.0:9090", &file] {
        let status = run_in(&netns, &["status", flag]);
        assert_eq!(status.code, Some(0), "{flag}: {}", status.stderr);
        let services = run_in(&netns, &["services", flag]);
        assert!(services.stderr.contains(SOURCE), "{services:#?}");
    }
    // Nothing listens at the default port; there, the health server has no such pages.
    for flag in [
        "--metrics-bind-address=127.0.0.1",
        "--metrics-bind-address=127.0.0.1:10256",
    ] {
        let status = run_in(&netns, &["status", flag]);
        assert_eq!(status.code, Some(2), "{status:#?}");
        let services = inspect(&netns, Backend::Nft, &["services", flag]);
        assert!(services.stdout.contains("storefront"));
        assert!(!services.stderr.contains("rules of node1"), "{services:#?}");
        assert!(!services.stderr.contains("busy"), "{services:#?}");
    }
}

#[test]
fn a_port_that_is_not_of_loopback_has_no_rules() {
    needs!(Kernel);
    let (netns, _daemon) = start(Backend::Nft, "192.0.2.1:10249");
    let flag = "--metrics-bind-address=192.0.2.1";
    let services = inspect(&netns, Backend::Nft, &["services", flag]);
    assert!(services.stdout.contains("storefront"));
    assert!(!services.stderr.contains("rules of node1"), "{services:#?}");
    let status = run_in(&netns, &["status", flag]);
    assert_eq!(status.code, Some(0), "{status:#?}");
    assert!(status.stdout.starts_with("node1: well\n"), "{status:#?}");
}

/// The daemon has only the rules of its backend, and packets traverse both.
#[test]
fn with_rules_in_the_other_backend_the_kernel_is_read() {
    needs!(Kernel);
    let (netns, _daemon) = start(Backend::Nft, "127.0.0.1:10249");
    let services = || run_in(&netns, &["services"]).stderr;
    assert!(services().contains(SOURCE), "{}", services());
    let mut legacy = netns.command("iptables-legacy");
    let added = legacy.args(["-t", "nat", "-N", "KUBE-SERVICES"]).status();
    assert!(added.unwrap().success());
    eventually(PATIENCE, || {
        let said = services();
        ensure(!said.contains(SOURCE), || said)
    });
    let status = run_in(&netns, &["status"]);
    assert_eq!(status.code, Some(1));
    let said = &status.stdout;
    assert!(said.contains("has rules of a proxy as well"), "{said}");
}
