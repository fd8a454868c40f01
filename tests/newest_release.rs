//! A file of the newest kube-proxy, which the daemon, `diff` and the chart accept, and settings of
//! a later one.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::charts::{documents, helm, program};
use crate::pages::Scene;
use crate::support::daemon::Daemon;
use crate::support::needs;
use crate::support::program::{PROGRAM, Ran, command};

const SOURCE: [&str; 2] = ["--manifests=deploy/examples", "--hostname-override=node1"];

fn deltaproxy(args: &[&str]) -> Ran {
    Ran::of(command(PROGRAM, args).current_dir(env!("CARGO_MANIFEST_DIR")))
}

/// Every gate of the release that is followed, with its default.
fn gates() -> String {
    let table = include_str!("../src/config/gates/1.37.txt");
    let gates = table.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        format!("{}={}", words[0], words[2] == "on")
    });
    gates.collect::<Vec<_>>().join(",")
}

#[test]
fn a_file_with_every_keyword_and_gate_is_accepted() {
    const NODE_PORTS: &str = "--nodeport-addresses=localhost,10.0.0.0/8,all,primary,fd00::/8";

    needs!(Clients, Upstream);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.conf");
    let gates = format!("--feature-gates={}", gates());
    let to = format!("--write-config-to={}", file.display());
    program("kube-proxy", &[NODE_PORTS, &gates, &to]).success();
    let written = fs::read_to_string(&file).unwrap();
    let written: Value = serde_saphyr::from_str(&written).unwrap();
    assert!(written["featureGates"].as_object().unwrap().len() > 250);

    let check = |file: &Path| {
        let config = format!("--config={}", file.display());
        deltaproxy(&["run", &config, "--check-config", "--strict"]).success()
    };
    let valid = "the configuration is valid; warnings: 0\n";
    assert_eq!(check(&file), valid);
    let config = format!("--config={}", file.display());
    let empty = folder.path().join("save");
    fs::write(&empty, "*nat\nCOMMIT\n*filter\nCOMMIT\n").unwrap();
    let from = format!("--from-save={}", empty.display());
    let output = deltaproxy(&[&["diff", &config, &from], &SOURCE[..]].concat());
    assert_eq!(output.code, Some(1), "{output:#?}");
    // It warns of the empty dump, and of nothing in the file.
    let count = output.stderr.matches("warning: ").count();
    assert_eq!(count, 1, "{output:#?}");

    let fields = ["featureGates", "nodePortAddresses"]
        .map(|name| format!("config.kubeProxy.{name}={}", written[name]));
    let own = "config.existingConfigMap=,config.apiServer=https://10.0.0.1:6443";
    let [gates, node_ports] = &fields;
    let set = ["--set", own, "--set-json", gates, "--set-json", node_ports];
    let rendered = helm(&set).success();
    let documents = documents(&rendered);
    let map = documents.iter().find(|one| one["kind"] == "ConfigMap");
    let of_chart = map.unwrap()["data"]["config.conf"].as_str().unwrap();
    let file = folder.path().join("chart.conf");
    fs::write(&file, of_chart).unwrap();
    let read: Value = serde_saphyr::from_str(of_chart).unwrap();
    for name in ["featureGates", "nodePortAddresses"] {
        assert_eq!(read[name], written[name]);
    }
    assert_eq!(check(&file), valid);
}

/// A gate of a later kube-proxy leaves no node without rules.
#[test]
fn an_unknown_feature_gate_is_logged_counted_and_shown() {
    needs!(Kernel);
    let gates = "--feature-gates=NFTableNetlink=true,KubeProxyIPVS=false";
    let scene = Scene::start(&[gates], Daemon::HEALTH);
    scene.assert_alive();
    let status = scene.get("/status");
    let shown = r#""unknownSettings":["featureGates.NFTableNetlink"]"#;
    assert!(status.contains(shown), "{status}");
    let metrics = scene.get("/metrics");
    for (kind, count) in [("feature_gate", 1), ("field", 0)] {
        let line = format!("deltaproxy_config_unknown_settings{{kind=\"{kind}\"}} {count}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    let log = fs::read_to_string(scene.folder.path().join("log")).unwrap();
    let known = "unknown feature gate `NFTableNetlink` ignored; did you mean `NFTablesNetlink`?";
    let warning = log.lines().find(|line| line.contains(known));
    assert!(warning.is_some_and(|line| line.contains(" WARN ")), "{log}");
    assert!(!log.contains("KubeProxyIPVS"), "{log}");
}

#[test]
fn an_unknown_feature_gate_is_named_by_commands_that_render() {
    for command in [&["render"][..], &["services", "--output=name"]] {
        let gate = "--feature-gates=Later=true";
        let output = deltaproxy(&[command, &[gate], &SOURCE[..]].concat());
        assert!(output.is_success(), "{output:#?}");
        let warning = "warning: unknown feature gate `Later` ignored\n";
        assert_eq!(output.stderr, warning);
    }
}
