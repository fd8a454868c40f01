//! Errors of every validated field, in a file and as a flag.
//!
//! Upstream: pkg/proxy/apis/config/validation/validation_test.go (v1.37)

use super::*;
use crate::cases::cases;

/// The file with these fields is rejected with this text.
#[track_caller]
fn file(fields: &str, problem: &str) {
    let error = with_file("", fields).map(|_| ()).expect_err(fields);
    assert_eq!(error, format!("`c.yaml`: {problem}"));
}

/// Each line is a file, which is rejected with the text of the indented lines below it.
#[track_caller]
fn files(table: &str) {
    for (fields, problem) in cases(table) {
        file(fields, &problem);
    }
}

/// Each line is a command line, which is rejected with the text of the indented lines below it.
#[track_caller]
fn flags(table: &str) {
    for (flags, problem) in cases(table) {
        let error = configured(flags).map(|_| ()).expect_err(flags);
        assert_eq!(error, problem);
    }
}

#[test]
fn modes() {
    files(
        "
mode: IPTables
    mode: unknown proxy mode `IPTables`; did you mean `iptables`?
mode: userspace
    mode: unknown proxy mode `userspace`: must be iptables
mode: ipvs
    mode: proxy mode `ipvs` is not supported
    hint: use `iptables`, or keep kube-proxy on this node
detectLocalMode: nodecidr
    detectLocalMode: unknown mode `nodecidr`; did you mean `NodeCIDR`?
detectLocalMode: BridgeInterface
    detectLocalMode: BridgeInterface requires detectLocal.bridgeInterface
detectLocalMode: InterfaceNamePrefix
    detectLocalMode: InterfaceNamePrefix requires detectLocal.interfaceNamePrefix
deltaproxy: {serviceDispatch: bush}
    deltaproxy.serviceDispatch: unknown arrangement `bush`: must be flat, tree or auto
",
    );
    flags(
        "
--proxy-mode=nftables
    --proxy-mode: proxy mode `nftables` is not supported
    hint: use `iptables`, or keep kube-proxy on this node
--detect-local-mode=BridgeInterface --pod-bridge-interface=sixteen-letters-
    --pod-bridge-interface: \"sixteen-letters-\" is not a valid interface name (at most 15 bytes)
--detect-local-mode=BridgeInterface --pod-bridge-interface=a\"b
    --pod-bridge-interface: \"a\\\"b\" is not a valid interface name (at most 15 bytes)
",
    );
    // Settings of other modes are ignored.
    loaded("detectLocalMode: NodeCIDR\nclusterCIDR: nonsense");
}

#[test]
fn numbers() {
    files(
        "
oomScoreAdj: -1001
    oomScoreAdj: must be from -1000 to 1000, got -1001
iptables: {masqueradeBit: 32}
    iptables.masqueradeBit: must be from 0 to 31, got 32
conntrack: {maxPerCore: -1}
    conntrack.maxPerCore: must be 0 or more, got -1
clientConnection: {burst: -1}
    clientConnection.burst: must be 0 or more, got -1
logging: {verbosity: 2147483648}
    logging.verbosity: must be at most 2147483647, got 2147483648
",
    );
    flags(
        "
--oom-score-adj=1001
    --oom-score-adj: must be from -1000 to 1000, got 1001
--iptables-masquerade-bit -1
    --iptables-masquerade-bit: must be from 0 to 31, got -1
--conntrack-min=-2
    --conntrack-min: must be 0 or more, got -2
--sync-cpu-budget=0
    --sync-cpu-budget: must be from 1 to 100, got 0
--v=-1
    --v: must be from 0 to 4294967295, got -1
",
    );
    // No line has a higher verbosity.
    assert_eq!(loaded("logging: {verbosity: 300}").verbosity, 255);
}

#[test]
fn times() {
    files(
        "
iptables: {syncPeriod: -1s}
    iptables.syncPeriod: must be greater than 0, got -1s
configSyncPeriod: -1s
    configSyncPeriod: must be greater than 0, got -1s
iptables: {minSyncPeriod: -1s}
    iptables.minSyncPeriod: must be 0 or more, got -1s
iptables: {minSyncPeriod: 40s}
    iptables.minSyncPeriod: must be at most the sync period, 30s; got 40s
logging: {flushFrequency: -1}
    logging.flushFrequency: must be greater than 0, got -1ns
conntrack: {tcpEstablishedTimeout: -1m}
    conntrack.tcpEstablishedTimeout: must be 0 or more, got -1m0s
conntrack: {tcpCloseWaitTimeout: -1m}
    conntrack.tcpCloseWaitTimeout: must be 0 or more, got -1m0s
conntrack: {udpTimeout: -1m}
    conntrack.udpTimeout: must be 0 or more, got -1m0s
conntrack: {udpStreamTimeout: -1m}
    conntrack.udpStreamTimeout: must be 0 or more, got -1m0s
",
    );
    flags(
        "
--config-sync-period=0
    --config-sync-period: must be greater than 0, got 0s
--iptables-sync-period=0
    --iptables-sync-period: must be greater than 0, got 0s
--iptables-sync-period=500ms --iptables-min-sync-period=1s
    --iptables-min-sync-period: must be at most the sync period, 500ms; got 1s
--conntrack-udp-timeout=-1m
    --conntrack-udp-timeout: must be 0 or more, got -1m0s
",
    );
}

#[test]
fn networks_and_addresses() {
    files(
        "
clusterCIDR: 10.0.0.0/8,11.0.0.0/8
    clusterCIDR: must be one CIDR, or one of each family; got `10.0.0.0/8,11.0.0.0/8`
clusterCIDR: 10.0.0.0
    clusterCIDR: `10.0.0.0` is not a valid CIDR (example: 10.244.0.0/16)
nodePortAddresses: ['']
    nodePortAddresses: `` is not a valid CIDR or keyword (keywords: primary, localhost, all; example: 10.0.0.0/8)
nodePortAddresses: [localhost, 10.0.0.0/8, localhost]
    nodePortAddresses: duplicate keyword `localhost`
bindAddress: '[::]'
    bindAddress: `[::]` is not a valid IP address
metricsBindAddress: here:1
    metricsBindAddress: `here:1` is not a valid address (examples: 127.0.0.1:1234, [::1]:1234, off)
healthzBindAddress: 1.2.3.4:0
    healthzBindAddress: `1.2.3.4:0` is not a valid address (examples: 127.0.0.1:1234, [::1]:1234, off)
healthzBindAddress: ':1'
    healthzBindAddress: `:1` is not a valid address (examples: 127.0.0.1:1234, [::1]:1234, off)
",
    );
    flags(
        "
--cluster-cidr=10.0.0.0/8,fd00::/8,11.0.0.0/8
    --cluster-cidr: must be one CIDR, or one of each family; got `10.0.0.0/8,fd00::/8,11.0.0.0/8`
--cluster-cidr=fd00::/129
    --cluster-cidr: `fd00::/129` is not a valid CIDR (example: 10.244.0.0/16)
--cluster-cidr=10.0.0.0/8,
    --cluster-cidr: `` is not a valid CIDR (example: 10.244.0.0/16)
--nodeport-addresses=all,PRIMARY
    --nodeport-addresses: `PRIMARY` is not a valid CIDR or keyword (keywords: primary, localhost, all; example: 10.0.0.0/8)
--bind-address=node-1
    --bind-address: `node-1` is not a valid IP address
--healthz-bind-address=127.0.0.1:66000
    --healthz-bind-address: `127.0.0.1:66000` is not a valid address (examples: 127.0.0.1:1234, [::1]:1234, off)
--metrics-bind-address-override=here
    --metrics-bind-address-override: `here` is not a valid address (examples: 127.0.0.1:1234, [::1]:1234, off)
",
    );
}

#[test]
fn logging() {
    files(
        "
logging: {format: xml}
    logging.format: unknown log format `xml`: must be text or json
logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}
    logging.vmodule: requires log format `text`
logging: {vmodule: [{filePattern: ''}]}
    logging.vmodule: `` is not a valid file name pattern
logging: {vmodule: [{filePattern: 'a=b'}]}
    logging.vmodule: `a=b` is not a valid file name pattern
logging: {vmodule: [{filePattern: 'a,b'}]}
    logging.vmodule: `a,b` is not a valid file name pattern
logging: {options: {json: {infoBufferSize: 1Mi}}}
    logging.options.json.infoBufferSize: requires feature gate LoggingAlphaOptions
",
    );
    flags(
        "
--log-text-split-stream
    --log-text-split-stream: requires feature gate LoggingAlphaOptions
--logging-format=json --feature-gates=AllBeta=false
    --logging-format: `json` requires feature gate LoggingBetaOptions
--logging-format=json --feature-gates=LoggingBetaOptions=false
    --logging-format: `json` requires feature gate LoggingBetaOptions
",
    );
    let both = "--feature-gates=AllBeta=false,LoggingBetaOptions=true";
    assert!(configured(&format!("--logging-format=json {both}")).is_ok());
    assert!(configured("--feature-gates=AllBeta=false").is_ok());
    // kube-proxy accepts these in a file, where they have no effect.
    loaded("logging: {options: {text: {splitStream: true}, json: {splitStream: true}}}");
    let buffer = "logging: {options: {json: {infoBufferSize: 1Mi}}}";
    loaded(&format!("{buffer}\nfeatureGates: {{AllAlpha: true}}"));
    let off = "featureGates: {AllAlpha: true, LoggingAlphaOptions: false}";
    file(
        &format!("{buffer}\n{off}"),
        "logging.options.json.infoBufferSize: requires feature gate LoggingAlphaOptions",
    );
}

#[test]
fn the_rest() {
    files(
        "
showHiddenMetricsForVersion: '1.34'
    showHiddenMetricsForVersion: must be the previous version, 1.36; got `1.34`
hostnameOverride: ' '
    hostnameOverride: node name must not be empty
",
    );
    flags(
        "
--feature-gates=AllAlpha
    --feature-gates: `AllAlpha` is not a valid gate (example: Name=true)
--feature-gates=PreferSameTrafficDistribution=false
    --feature-gates: feature gate `PreferSameTrafficDistribution` must be true, got false
    hint: remove the gate
--feature-gates=GitRepoVolumeDriver=true
    --feature-gates: feature gate `GitRepoVolumeDriver` must be false, got true
    hint: remove the gate
--feature-gates=SidecarContainers=false
    --feature-gates: feature gate `SidecarContainers` must be true, got false
    hint: remove the gate
--manifests=a --manifests=b
    --manifests: must be given once, got a and b
    hint: put the files into one folder
",
    );
    for source in ["--kubeconfig=k", "--master=https://m"] {
        let both = format!("--manifests=m {source}");
        let error = configured(&both).map(|_| ()).expect_err(source);
        assert!(error.contains("are mutually exclusive"), "{error}");
    }
    let error = with_text("--hostname-override=_", HEADER).map(|config| config.rules.node_name);
    assert_eq!(error.as_deref(), Ok("_"));
}

#[test]
fn values_that_cannot_be_parsed() {
    flags(
        "
--conntrack-min=abc
    --conntrack-min: `abc` is not a valid integer
--oom-score-adj=1.5
    --oom-score-adj: `1.5` is not a valid integer
--config-sync-period=5
    --config-sync-period: `5` is not a valid duration (examples: 30s, 500ms, 1h30m)
--cleanup=maybe
    --cleanup: `maybe` is not a valid boolean (true or false)
--masquerade-all=yes
    --masquerade-all: `yes` is not a valid boolean (true or false)
--v=x
    --v: `x` is not a valid integer
--v=e
    --v: `e` is not a valid integer
--kube-api-qps=f
    --kube-api-qps: `f` is not a valid number
--kube-api-qps=nan
    --kube-api-qps: `nan` is not a valid number
--state-dir=
    --state-dir: must not be empty
--vmodule=a
    --vmodule: `a` is not a valid entry (example: pattern=2)
--vmodule=a=b
    --vmodule: `b` is not a valid verbosity
--healthz-port=70000
    --healthz-port: 70000 is not a valid port (0-65535)
--feature-gates=AllAlpha=maybe
    --feature-gates: `maybe` is not a valid boolean (true or false)
",
    );
}

/// Those of values and of what they mean.
#[test]
fn problems_of_several_flags_are_reported_together() {
    flags(
        "
--cluster-cidr=10.4.0.0/40 --proxy-mode=ipvs --detect-local-mode=Foo --conntrack-min=abc --verify-interval=x
    --verify-interval: `x` is not a valid duration (examples: 30s, 500ms, 1h30m)
    --conntrack-min: `abc` is not a valid integer
    --proxy-mode: proxy mode `ipvs` is not supported
    hint: use `iptables`, or keep kube-proxy on this node
    --cluster-cidr: `10.4.0.0/40` is not a valid CIDR (example: 10.244.0.0/16)
    --detect-local-mode: unknown mode `Foo`: must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix
",
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
