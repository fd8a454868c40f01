//! The program as its users meet it: arguments in, text and exit codes out.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::support::program::{PROGRAM, Ran, command, run};

/// One Service, one endpoint, one object that is neither.
const MANIFESTS: &str = r#"
{"kind": "List", "items": [
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}},
  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"},
   "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80}]}},
  {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
   "metadata": {"name": "shop-1", "labels": {"kubernetes.io/service-name": "shop"}},
   "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
   "endpoints": [{"addresses": ["10.4.0.11"]}]}
]}"#;

/// Runs with a reader of stdout that has gone, which must be no error.
#[track_caller]
fn without_reader(args: &[&str]) -> Ran {
    let mut child = command(PROGRAM, args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = Ran::ended(child.wait_with_output().unwrap());
    assert!(output.is_success(), "{output:#?}");
    output
}

/// Runs with `input` on stdin.
fn feed(args: &[&str], input: &str) -> Ran {
    let mut child = command(PROGRAM, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    Ran::ended(child.wait_with_output().unwrap())
}

#[track_caller]
fn unusable(args: &[&str], named: &str) {
    let ran = run(args);
    ran.fails(64, &[named]);
    assert!(ran.stdout.is_empty(), "{args:?} wrote to stdout");
}

/// As kube-proxy has it: no other flag is looked at, unless it goes on.
#[test]
fn the_version_is_told_and_not_another() {
    let version = run(&["--version"]).success();
    assert!(
        version.ends_with(", in place of kube-proxy v1.37.2\n"),
        "{version}"
    );
    for args in [
        &["--version=raw"][..],
        &["--version=true"],
        &["run", "-V"],
        &["--proxy-mode=ipvs", "--version"],
    ] {
        let output = run(args);
        assert!(output.is_success(), "{args:?}");
        assert_eq!(output.stdout, version, "{args:?}");
    }
    let goes_on = |flag| {
        let output = run(&[flag, "--write-config-to=/dev/null"]);
        assert!(output.is_success() && output.stdout.is_empty());
        output.stderr
    };
    assert!(!goes_on("--version=false").contains("--version"));
    unusable(&["--version=v1.37.9"], "`v1.37.9` is not a valid boolean");
    unusable(&["--version=soon"], "--version");
}

#[test]
fn kube_proxys_name_and_spelling_run_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let kube_proxy = folder.path().join("kube-proxy");
    symlink(PROGRAM, &kube_proxy).unwrap();
    // A flag that is refused shows that `run` read it, without running anything.
    let refused = Ran::of(&mut command(kube_proxy, &["--iptables_sync_period=soon"]));
    refused.fails(64, &["--iptables-sync-period"]);
}

#[test]
fn a_written_configuration_is_written_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (first, second) = (file("first.yaml"), file("second.yaml"));
    let flags = ["--cluster-cidr=10.4.0.0/14", "--ipvs-scheduler=rr", "--v=0"];
    let output = run(&[&flags[..], &["--write-config-to", &first]].concat());
    let said = &output.stderr;
    assert!(output.is_success(), "{said}");
    assert!(
        said.contains("without effect in this version: `--ipvs-scheduler`"),
        "{said}"
    );
    let output = run(&["--config", &first, "--write-config-to", &second]);
    assert!(output.is_success(), "{output:#?}");
    let written = fs::read_to_string(first).unwrap();
    assert!(written.contains("clusterCIDR: 10.4.0.0/14\n"), "{written}");
    assert_eq!(fs::read_to_string(second).unwrap(), written);
    let refused = file("refused.yaml");
    let output = run(&["--cluster-cidr=10.0.0.0/33", "--write-config-to", &refused]);
    assert_eq!(output.code, Some(64));
    assert!(!fs::exists(refused).unwrap());
    let output = run(&["--write-config-to", "/nowhere/at/all"]);
    assert_eq!(output.code, Some(1));
}

#[test]
fn flags_are_told_from_verbosity_1_on() {
    let told = |flags: &[&str]| {
        let output = run(&[flags, &["--write-config-to=/dev/null"]].concat());
        let said = &output.stderr;
        assert!(output.is_success(), "{said}");
        let told = said
            .split('\n')
            .filter_map(|line| line.split_once("FLAG: "));
        told.map(|(_, flag)| flag.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(told(&["--masquerade-all"]), [] as [&str; 0]);
    let told = told(&["--v=1", "--hostname-override= N1 "]);
    for flag in [
        "--v=\"1\"",
        "--hostname-override=\" N1 \"",
        "--masquerade-all=\"false\"",
    ] {
        assert!(told.iter().any(|said| said == flag), "{flag}: {told:#?}");
    }
}

#[test]
fn render_reads_stdin_and_prints_a_payload_for_each_family() {
    let args = [
        "render",
        "--manifests",
        "-",
        "--hostname-override=n",
        "--cluster-cidr=10.4.0.0/14",
    ];
    let output = feed(&args, MANIFESTS);
    assert!(output.is_success(), "{output:#?}");
    let payload = &output.stdout;
    let rule = "-A KUBE-SERVICES -m comment --comment \"default/shop cluster IP\" -m tcp -p tcp \
        -d 10.96.0.10 --dport 80 -j KUBE-SVC-";
    assert!(payload.contains(rule), "{payload}");
    assert!(
        payload.starts_with("*filter\n") && payload.ends_with("COMMIT\n"),
        "{payload}"
    );
    let again = feed(&args, MANIFESTS).stdout;
    assert_eq!(&again, payload, "not the same bytes again");

    let v6 = [&args[..], &["--family=ipv6"]].concat();
    let payload = feed(&v6, MANIFESTS).stdout;
    assert!(
        !payload.contains("shop") && payload.contains("! -d ::1/128"),
        "{payload}"
    );
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    assert_eq!(without_reader(&["man"]).stderr, "");
}

#[test]
fn a_dry_run_ends_with_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.json"), MANIFESTS).unwrap();
    let manifests = folder.path().to_str().unwrap();
    let ports = [
        "--metrics-bind-address=127.0.0.1:1",
        "--healthz-bind-address=127.0.0.1:1",
    ];
    without_reader(&[&["run", "--dry-run", "--manifests", manifests], &ports[..]].concat());
}

#[test]
fn packagers_get_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).success();
        assert!(script.contains("cluster-cidr"), "{shell}");
    }
}
