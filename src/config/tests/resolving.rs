//! Resolved configuration of flags.
//!
//! Upstream: pkg/proxy/apis/config/validation/validation.go,
//! `cmd/kube-proxy/app/options_test.go` (v1.37)

use std::time::Duration;

use super::*;
use crate::net::IpFamily;
use crate::render::TreeThresholds;
use crate::sync::Gap;
use crate::watch::api::{Encoding, RateLimit};

fn good(flags: &str) -> Config {
    configured(flags).unwrap_or_else(|error| panic!("{flags}: {error}"))
}

#[test]
fn periods_fit_together() {
    let gap = |flags| good(flags).pacer.gap;
    let zero = Gap::Fixed(Duration::ZERO);
    assert_eq!(gap("--iptables-min-sync-period=0"), zero);
    // Upstream ends with a panic beyond an hour.
    let long = "--iptables-sync-period=3h --iptables-min-sync-period=2h";
    assert_eq!(gap(long), Gap::Fixed(Duration::from_secs(7200)));
}

#[test]
fn the_node_has_a_name() {
    let name = |flags| good(flags).rules.node_name;
    assert_eq!(name("--hostname-override=Worker-A"), "worker-a");
    assert_eq!(name("--hostname-override="), "node-1");
    let args = |name: &str| {
        let typed = ["deltaproxy", "run", "--hostname-override", name];
        let Command::Run(args) = Cli::try_parse_from(typed).unwrap().command else {
            unreachable!("`run` was typed")
        };
        args
    };
    let named = |flag, host| run(&args(flag), None, host).map(|config| config.rules.node_name);
    assert_eq!(named(" A ", "x").unwrap(), "a");
    let empty = "--hostname-override: node name must not be empty";
    assert_eq!(named("  ", "x").unwrap_err().to_string(), empty);
    assert_eq!(named("", " ").unwrap_err().to_string(), empty);
}

#[test]
fn requests_are_limited_as_by_client_go() {
    for (flags, qps, burst) in [
        ("", 5.0, 10),
        ("--kube-api-qps=0 --kube-api-burst=0", 5.0, 10),
        ("--kube-api-qps=-1", -1.0, 10),
        ("--kube-api-qps=0.5 --kube-api-burst=1", 0.5, 1),
    ] {
        let Source::Cluster(options) = good(flags).rules.source else {
            panic!("no manifests were given")
        };
        assert_eq!(options.rate_limit, RateLimit { qps, burst }, "{flags}");
    }
}

#[test]
fn objects_are_encoded_as_kube_proxy_would_have_them() {
    let encoding = |config: Config| match config.rules.source {
        Source::Cluster(options) => options.encoding,
        Source::Manifests { .. } => panic!("no manifests were given"),
    };
    let json = "--kube-api-content-type=application/json";
    assert_eq!(encoding(good("")), Encoding::Protobuf);
    assert_eq!(encoding(good(json)), Encoding::Json);
    for (fields, expected) in [
        ("contentType: ''", Encoding::Protobuf),
        ("contentType: application/json", Encoding::Json),
        (
            "contentType: application/json, acceptContentTypes: application/vnd.kubernetes.protobuf",
            Encoding::Protobuf,
        ),
        (
            "acceptContentTypes: 'application/json,application/vnd.kubernetes.protobuf'",
            Encoding::Json,
        ),
    ] {
        let config = loaded(&format!("clientConnection: {{{fields}}}\n"));
        assert_eq!(noted(&config), [""; 0], "{fields}");
        assert_eq!(encoding(config), expected, "{fields}");
    }
}

/// The field is deltaproxy's own: the flag applies with a file as well, and overrides it.
#[test]
fn service_dispatch_comes_from_the_flag_or_the_file() {
    let tree = "--service-dispatch=tree";
    for (flags, file, expected) in [
        ("", None, TreeThresholds::AUTO),
        ("--service-dispatch=flat", None, TreeThresholds::FLAT),
        (tree, None, TreeThresholds::TREE),
        ("", Some("flat"), TreeThresholds::FLAT),
        (tree, Some("auto"), TreeThresholds::TREE),
    ] {
        let config = match file {
            Some(word) => with_file(flags, &format!("deltaproxy: {{serviceDispatch: {word}}}\n")),
            None => configured(flags),
        };
        let config = config.unwrap();
        assert_eq!(noted(&config), [""; 0]);
        let settings = config.rules.render_settings.get(IpFamily::V4);
        assert_eq!(settings.fixed.tree_thresholds, expected, "{flags} {file:?}");
    }
    // kube-proxy reads the file that is written without a warning.
    let written = |flags| configured(flags).unwrap().configuration.to_yaml();
    assert!(!written("--service-dispatch=auto").contains("deltaproxy"));
    assert!(written("--service-dispatch=flat").contains("deltaproxy:\n  serviceDispatch: flat\n"));
}
