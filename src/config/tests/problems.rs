//! Errors of every validated field, in a file and as a flag.
//!
//! Upstream: pkg/proxy/apis/config/validation/validation_test.go (v1.37)

use super::*;

/// The file with these fields is rejected with this text.
#[track_caller]
fn file(fields: &str, problem: &str) {
    let error = with_file("", fields).map(|_| ()).expect_err(fields);
    assert_eq!(error, format!("`c.yaml`: {problem}"));
}

/// The flags are rejected with this text.
#[track_caller]
fn flags(flags: &str, problem: &str) {
    let error = configured(flags).map(|_| ()).expect_err(flags);
    assert_eq!(error, problem);
}

#[test]
fn modes() {
    let hint = "is not supported\nhint: use `iptables`, or keep kube-proxy on this node";
    file("mode: ipvs", &format!("mode: proxy mode `ipvs` {hint}"));
    flags(
        "--proxy-mode=nftables",
        &format!("--proxy-mode: proxy mode `nftables` {hint}"),
    );
    file(
        "mode: IPTables",
        "mode: unknown proxy mode `IPTables`; did you mean `iptables`?",
    );
    file(
        "mode: userspace",
        "mode: unknown proxy mode `userspace`: must be iptables",
    );
    file(
        "detectLocalMode: nodecidr",
        "detectLocalMode: unknown mode `nodecidr`; did you mean `NodeCIDR`?",
    );
    let known = "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix";
    let mode = format!("--detect-local-mode: unknown mode `Foo`: must be {known}");
    flags(
        "--cluster-cidr=10.4.0.0/40 --proxy-mode=ipvs --detect-local-mode=Foo",
        &format!(
            "--proxy-mode: proxy mode `ipvs` {hint}\n\
             --cluster-cidr: `10.4.0.0/40` is not a valid CIDR (example: 10.244.0.0/16)\n{mode}"
        ),
    );
    file(
        "detectLocalMode: BridgeInterface",
        "detectLocalMode: BridgeInterface requires detectLocal.bridgeInterface",
    );
    file(
        "detectLocalMode: InterfaceNamePrefix",
        "detectLocalMode: InterfaceNamePrefix requires detectLocal.interfaceNamePrefix",
    );
    // Settings of other modes are ignored.
    loaded("detectLocalMode: NodeCIDR\nclusterCIDR: nonsense");
}

#[test]
fn numbers() {
    file(
        "oomScoreAdj: -1001",
        "oomScoreAdj: must be from -1000 to 1000, got -1001",
    );
    flags(
        "--oom-score-adj=1001",
        "--oom-score-adj: must be from -1000 to 1000, got 1001",
    );
    let bit = "iptables: {masqueradeBit: 32}";
    file(bit, "iptables.masqueradeBit: must be from 0 to 31, got 32");
    flags(
        "--iptables-masquerade-bit -1",
        "--iptables-masquerade-bit: must be from 0 to 31, got -1",
    );
    file(
        "conntrack: {maxPerCore: -1}",
        "conntrack.maxPerCore: must be 0 or more, got -1",
    );
    flags(
        "--conntrack-min=-2",
        "--conntrack-min: must be 0 or more, got -2",
    );
    file(
        "clientConnection: {burst: -1}",
        "clientConnection.burst: must be 0 or more, got -1",
    );
    file(
        "logging: {verbosity: 2147483648}",
        "logging.verbosity: must be at most 2147483647, got 2147483648",
    );
}

#[test]
fn times() {
    file(
        "iptables: {syncPeriod: -1s}",
        "iptables.syncPeriod: must be greater than 0, got -1s",
    );
    file(
        "configSyncPeriod: -1s",
        "configSyncPeriod: must be greater than 0, got -1s",
    );
    flags(
        "--config-sync-period=0",
        "--config-sync-period: must be greater than 0, got 0s",
    );
    file(
        "iptables: {minSyncPeriod: -1s}",
        "iptables.minSyncPeriod: must be 0 or more, got -1s",
    );
    file(
        "iptables: {minSyncPeriod: 40s}",
        "iptables.minSyncPeriod: must be at most the sync period, 30s; got 40s",
    );
    for (field, flag) in [
        ("tcpEstablishedTimeout", "conntrack-tcp-timeout-established"),
        ("tcpCloseWaitTimeout", "conntrack-tcp-timeout-close-wait"),
        ("udpTimeout", "conntrack-udp-timeout"),
        ("udpStreamTimeout", "conntrack-udp-timeout-stream"),
    ] {
        let problem = format!("conntrack.{field}: must be 0 or more, got -1m0s");
        file(&format!("conntrack: {{{field}: -1m}}"), &problem);
        flags(
            &format!("--{flag}=-1m"),
            &format!("--{flag}: must be 0 or more, got -1m0s"),
        );
    }
    file(
        "logging: {flushFrequency: -1}",
        "logging.flushFrequency: must be greater than 0, got -1ns",
    );
}

#[test]
fn networks_and_addresses() {
    file(
        "clusterCIDR: 10.0.0.0/8,11.0.0.0/8",
        "clusterCIDR: must be one CIDR, or one of each family; got `10.0.0.0/8,11.0.0.0/8`",
    );
    let error = "is not a valid CIDR (example: 10.244.0.0/16)";
    file(
        "clusterCIDR: 10.0.0.0",
        &format!("clusterCIDR: `10.0.0.0` {error}"),
    );
    file(
        "nodePortAddresses: ['']",
        "nodePortAddresses: `` is not a valid CIDR or keyword (keywords: primary, localhost, all; \
         example: 10.0.0.0/8)",
    );
    file(
        "nodePortAddresses: [localhost, 10.0.0.0/8, localhost]",
        "nodePortAddresses: duplicate keyword `localhost`",
    );
    file(
        "bindAddress: '[::]'",
        "bindAddress: `[::]` is not a valid IP address",
    );
    let error = "is not a valid address (examples: 127.0.0.1:1234, [::1]:1234, off)";
    file(
        "metricsBindAddress: here:1",
        &format!("metricsBindAddress: `here:1` {error}"),
    );
    file(
        "healthzBindAddress: 1.2.3.4:0",
        &format!("healthzBindAddress: `1.2.3.4:0` {error}"),
    );
    file(
        "healthzBindAddress: ':1'",
        &format!("healthzBindAddress: `:1` {error}"),
    );
}

#[test]
fn logging() {
    file(
        "logging: {format: xml}",
        "logging.format: unknown log format `xml`: must be text or json",
    );
    file(
        "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
        "logging.vmodule: requires log format `text`",
    );
    for pattern in ["", "a=b", "a,b"] {
        file(
            &format!("logging: {{vmodule: [{{filePattern: '{pattern}'}}]}}"),
            &format!("logging.vmodule: `{pattern}` is not a valid file name pattern"),
        );
    }
    let gated = "requires feature gate LoggingAlphaOptions";
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
    // kube-proxy accepts these in a file, where they have no effect.
    loaded("logging: {options: {text: {splitStream: true}, json: {splitStream: true}}}");
    let json = "--logging-format: `json` requires feature gate LoggingBetaOptions";
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
        "showHiddenMetricsForVersion: must be the previous version, 1.36; got `1.34`",
    );
    file(
        "hostnameOverride: ' '",
        "hostnameOverride: node name must not be empty",
    );
    let error = with_text("--hostname-override=_", HEADER).map(|config| config.rules.node_name);
    assert_eq!(error.as_deref(), Ok("_"));
}

#[test]
fn values_that_cannot_be_parsed() {
    flags(
        "--conntrack-min=abc",
        "--conntrack-min: `abc` is not a valid integer",
    );
    flags(
        "--config-sync-period=5",
        "--config-sync-period: `5` is not a valid duration (examples: 30s, 500ms, 1h30m)",
    );
    flags(
        "--cleanup=maybe",
        "--cleanup: `maybe` is not a valid boolean (true or false)",
    );
    flags("--v=x", "--v: `x` is not a valid integer");
    // Not hidden by a text that has the letter anyway.
    flags("--v=e", "--v: `e` is not a valid integer");
    flags(
        "--kube-api-qps=f",
        "--kube-api-qps: `f` is not a valid number",
    );
    flags("--v=-1", "--v: must be from 0 to 4294967295, got -1");
    flags(
        "--sync-cpu-budget=0",
        "--sync-cpu-budget: must be from 1 to 100, got 0",
    );
    flags("--state-dir=", "--state-dir: must not be empty");
    flags(
        "--kube-api-qps=nan",
        "--kube-api-qps: `nan` is not a valid number",
    );
}

/// The last one would win, and the objects of all others would be missing.
#[test]
fn several_manifests_are_rejected() {
    flags(
        "--manifests=a --manifests=b",
        "--manifests: must be given once, got a and b\n\
         hint: put the files into one folder",
    );
}

#[test]
fn problems_of_values_and_of_their_meaning_are_reported_together() {
    flags(
        "--cluster-cidr=bad --detect-local-mode=foo --conntrack-min=abc --verify-interval=x",
        "--verify-interval: `x` is not a valid duration (examples: 30s, 500ms, 1h30m)\n\
         --conntrack-min: `abc` is not a valid integer\n\
         --cluster-cidr: `bad` is not a valid CIDR (example: 10.244.0.0/16)\n\
         --detect-local-mode: unknown mode `foo`: must be ClusterCIDR, NodeCIDR, \
         BridgeInterface or InterfaceNamePrefix",
    );
}

/// These commands may read the kernel, and then resolve no configuration.
#[test]
fn problems_of_all_values_are_reported_by_commands_that_do_not_run() {
    let line = "deltaproxy services --iptables-masquerade-bit=a --masquerade-all=b";
    let args: Vec<_> = line.split(' ').map(Into::into).collect();
    let error = Cli::from_args(Cli::command(), &args).unwrap_err();
    assert_eq!(
        error.to_string(),
        "error: --masquerade-all: `b` is not a valid boolean (true or false)\n\
         error: --iptables-masquerade-bit: `a` is not a valid integer\n"
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let fields = "mode: x\noomScoreAdj: 5000\nclusterCIDR: a\nbindAddress: b\n\
                  metricsBindAddress: c\nhealthzBindAddress: d\nnodePortAddresses: [e]\n\
                  iptables: {masqueradeBit: 40, syncPeriod: -1s, minSyncPeriod: -2s}\n\
                  featureGates: {SidecarContainers: false, GitRepoVolumeDriver: true}\nlogging: {format: f}\n\
                  conntrack: {maxPerCore: -1, min: -1, udpTimeout: -1s}\nhostnameOverride: ' '\n\
                  clientConnection: {burst: -1}\nshowHiddenMetricsForVersion: g\n\
                  configSyncPeriod: -1s\n";
    let error = with_file("--manifests=m", fields).unwrap_err();
    let problems = error.lines().filter(|line| !line.starts_with("hint: "));
    let places: Vec<&str> = problems
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
