//! Everything that validation refuses, in the words of a file and of flags.
//!
//! Upstream: pkg/proxy/apis/config/validation/validation_test.go (v1.36)

use super::*;

/// These fields are refused with this text.
#[track_caller]
fn file(fields: &str, problem: &str) {
    let error = with_file("", fields).map(|_| ()).expect_err(fields);
    assert_eq!(error, format!("`c.yaml`: {problem}"));
}

/// These flags are.
#[track_caller]
fn flags(flags: &str, problem: &str) {
    let error = configured(flags).map(|_| ()).expect_err(flags);
    assert_eq!(error, problem);
}

#[test]
fn modes() {
    let hint = "is done by kube-proxy only; run that, or choose `iptables`";
    file("mode: ipvs", &format!("mode: `ipvs` {hint}"));
    flags(
        "--proxy-mode=nftables",
        &format!("--proxy-mode: `nftables` {hint}"),
    );
    file(
        "mode: IPTables",
        "mode: `IPTables` is no mode; write `iptables`",
    );
    let known = "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix";
    file(
        "detectLocalMode: nodecidr",
        &format!("detectLocalMode: `nodecidr` is no mode; write {known}"),
    );
    let mode = format!("--detect-local-mode: `Foo` is no mode; write {known}");
    flags(
        "--cluster-cidr=10.4.0.0/40 --proxy-mode=ipvs --detect-local-mode=Foo",
        &format!("--proxy-mode: `ipvs` {hint}\n{mode}"),
    );
    file(
        "detectLocalMode: BridgeInterface",
        "detectLocal.bridgeInterface: is required by mode BridgeInterface",
    );
    file(
        "detectLocalMode: InterfaceNamePrefix",
        "detectLocal.interfaceNamePrefix: is required by mode InterfaceNamePrefix",
    );
    // What another mode needs is not looked at.
    loaded("detectLocalMode: NodeCIDR\nclusterCIDR: nonsense");
}

#[test]
fn numbers() {
    file(
        "oomScoreAdj: -1001",
        "oomScoreAdj: -1001 is not from -1000 to 1000",
    );
    flags(
        "--oom-score-adj=1001",
        "--oom-score-adj: 1001 is not from -1000 to 1000",
    );
    let bit = "iptables: {masqueradeBit: 32}";
    file(bit, "iptables.masqueradeBit: 32 is not from 0 to 31");
    flags(
        "--iptables-masquerade-bit -1",
        "--iptables-masquerade-bit: -1 is not from 0 to 31",
    );
    file(
        "conntrack: {maxPerCore: -1}",
        "conntrack.maxPerCore: -1 is not 0 or more",
    );
    flags("--conntrack-min=-2", "--conntrack-min: -2 is not 0 or more");
    file(
        "clientConnection: {burst: -1}",
        "clientConnection.burst: -1 is not 0 or more",
    );
    file(
        "logging: {verbosity: 2147483648}",
        "logging.verbosity: 2147483648 is more than 2147483647",
    );
}

#[test]
fn times() {
    file(
        "iptables: {syncPeriod: -1s}",
        "iptables.syncPeriod: -1s is not greater than 0",
    );
    file(
        "configSyncPeriod: -1s",
        "configSyncPeriod: -1s is not greater than 0",
    );
    flags(
        "--config-sync-period=0",
        "--config-sync-period: 0s is not greater than 0",
    );
    file(
        "iptables: {minSyncPeriod: -1s}",
        "iptables.minSyncPeriod: -1s is negative",
    );
    file(
        "iptables: {minSyncPeriod: 40s}",
        "iptables.minSyncPeriod: 40s is more than the sync period, 30s",
    );
    for (field, flag) in [
        ("tcpEstablishedTimeout", "conntrack-tcp-timeout-established"),
        ("tcpCloseWaitTimeout", "conntrack-tcp-timeout-close-wait"),
        ("udpTimeout", "conntrack-udp-timeout"),
        ("udpStreamTimeout", "conntrack-udp-timeout-stream"),
    ] {
        let problem = format!("conntrack.{field}: -1m0s is negative");
        file(&format!("conntrack: {{{field}: -1m}}"), &problem);
        flags(
            &format!("--{flag}=-1m"),
            &format!("--{flag}: -1m0s is negative"),
        );
    }
    file(
        "logging: {flushFrequency: -1}",
        "logging.flushFrequency: -1ns is not greater than 0",
    );
}

#[test]
fn networks_and_addresses() {
    file(
        "clusterCIDR: 10.0.0.0/8,11.0.0.0/8",
        "clusterCIDR: `10.0.0.0/8,11.0.0.0/8` is neither one network nor one of each family",
    );
    let hint = "is no network; write one like `10.244.0.0/16`";
    file(
        "clusterCIDR: 10.0.0.0",
        &format!("clusterCIDR: `10.0.0.0` {hint}"),
    );
    file(
        "nodePortAddresses: ['']",
        &format!("nodePortAddresses: `` {hint}"),
    );
    file(
        "nodePortAddresses: [primary, 10.0.0.0/8]",
        "nodePortAddresses: `primary` cannot be mixed with networks",
    );
    file("bindAddress: '[::]'", "bindAddress: `[::]` is no address");
    let hint = "is no address; write one like `127.0.0.1:1234` or `[::1]:1234`, or `off`";
    file(
        "metricsBindAddress: here:1",
        &format!("metricsBindAddress: `here:1` {hint}"),
    );
    file(
        "healthzBindAddress: 1.2.3.4:0",
        &format!("healthzBindAddress: `1.2.3.4:0` {hint}"),
    );
    file(
        "healthzBindAddress: ':1'",
        &format!("healthzBindAddress: `:1` {hint}"),
    );
}

#[test]
fn logging() {
    file(
        "logging: {format: xml}",
        "logging.format: `xml` is no format; write `text` or `json`",
    );
    file(
        "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
        "logging.vmodule: goes with format `text` only",
    );
    for pattern in ["", "a=b", "a,b"] {
        file(
            &format!("logging: {{vmodule: [{{filePattern: '{pattern}'}}]}}"),
            &format!("logging.vmodule: `{pattern}` is no pattern of file names"),
        );
    }
    let gated = "needs the feature gate LoggingAlphaOptions";
    flags(
        "--log-text-split-stream",
        &format!("--log-text-split-stream: {gated}"),
    );
    let buffer = "logging: {options: {json: {infoBufferSize: 1Mi}}}";
    file(
        buffer,
        &format!("logging.options.json.infoBufferSize: {gated}"),
    );
    loaded(&format!("{buffer}\nfeatureGates: {{AllAlpha: true}}"));
    // Nothing is lost: it has no effect in any case, and kube-proxy takes it.
    loaded("logging: {options: {text: {splitStream: true}, json: {splitStream: true}}}");
    let json = "--logging-format: `json` needs the feature gate LoggingBetaOptions";
    flags("--logging-format=json --feature-gates=AllBeta=false", json);
    flags(
        "--logging-format=json --feature-gates=LoggingBetaOptions=false",
        json,
    );
    let both = "--feature-gates=AllBeta=false,LoggingBetaOptions=true";
    assert!(configured(&format!("--logging-format=json {both}")).is_ok());
    assert!(configured("--feature-gates=AllBeta=false").is_ok());
    let off = "featureGates: {AllAlpha: true, LoggingAlphaOptions: false}";
    file(
        &format!("{buffer}\n{off}"),
        &format!("logging.options.json.infoBufferSize: {gated}"),
    );
}

#[test]
fn the_rest() {
    file(
        "showHiddenMetricsForVersion: '1.34'",
        "showHiddenMetricsForVersion: `1.34` is not the previous version, `1.35`",
    );
    file(
        "hostnameOverride: ' '",
        "hostnameOverride: the node's name is empty",
    );
    let error = with_text("--hostname-override=_", HEADER).map(|config| config.rules.node_name);
    assert_eq!(error.as_deref(), Ok("_"));
}

#[test]
fn everything_is_said_at_once_in_one_line_each() {
    let fields = "mode: x\noomScoreAdj: 5000\nclusterCIDR: a\nbindAddress: b\n\
                  metricsBindAddress: c\nhealthzBindAddress: d\nnodePortAddresses: [e]\n\
                  iptables: {masqueradeBit: 40, syncPeriod: -1s, minSyncPeriod: -2s}\n\
                  featureGates: {Foo: true, Bar: false}\nlogging: {format: f}\n\
                  conntrack: {maxPerCore: -1, min: -1, udpTimeout: -1s}\nhostnameOverride: ' '\n\
                  clientConnection: {burst: -1}\nshowHiddenMetricsForVersion: g\n\
                  configSyncPeriod: -1s\n";
    let error = with_file("--manifests=m --manifests-service-cidr=h", fields).unwrap_err();
    let places: Vec<&str> = error
        .lines()
        .map(|line| {
            let line = line.strip_prefix("`c.yaml`: ").unwrap_or(line);
            line.split(": ").next().unwrap_or_default()
        })
        .collect();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            "--manifests-service-cidr",
            "bindAddress",
            "clientConnection.burst",
            "clusterCIDR",
            "configSyncPeriod",
            "conntrack.maxPerCore",
            "conntrack.min",
            "conntrack.udpTimeout",
            "featureGates",
            "featureGates",
            "healthzBindAddress",
            "hostnameOverride",
            "iptables.masqueradeBit",
            "iptables.minSyncPeriod",
            "iptables.syncPeriod",
            "logging.format",
            "metricsBindAddress",
            "mode",
            "nodePortAddresses",
            "oomScoreAdj",
            "showHiddenMetricsForVersion",
        ]
    );
}
