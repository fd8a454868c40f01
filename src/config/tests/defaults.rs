//! Every field of a file: its value if absent, `null` or zero, and the note on it if it is set.
//!
//! Upstream: pkg/proxy/apis/config/v1alpha1/defaults_test.go (v1.36)

use super::*;
use crate::config::kube_proxy::{self, KubeProxyConfiguration, leaves};
use crate::config::settings;

/// Path, default, zero of the type, whether zero counts or means the default, and another value;
/// `-` if there is none. `null` stands for a field that is not written.
const TABLE: &str = r#"
    featureGates                        | null      | {}     | default | {"AllAlpha":false}
    clientConnection.kubeconfig         | ""        | ""     | default | "k"
    clientConnection.acceptContentTypes | ""        | ""     | default | "application/json"
    clientConnection.contentType        | "application/vnd.kubernetes.protobuf" | "" | default | "x"
    clientConnection.qps                | 5         | 0      | default | -1
    clientConnection.burst              | 10        | 0      | default | 20
    logging.format                      | "text"    | ""     | default | "json"
    logging.flushFrequency              | "5s"      | "0s"   | default | "1s"
    logging.verbosity                   | 0         | 0      | default | 4
    logging.vmodule                     | null      | []     | default | [{"filePattern":"a","verbosity":1}]
    logging.options.text.splitStream    | null      | false  | default | true
    logging.options.text.infoBufferSize | "0"       | "0"    | default | "64Ki"
    logging.options.json.splitStream    | null      | false  | default | true
    logging.options.json.infoBufferSize | "0"       | "0"    | default | "64Ki"
    hostnameOverride                    | ""        | ""     | default | "n"
    bindAddress                         | "0.0.0.0" | ""     | default | "10.0.0.1"
    healthzBindAddress                  | "0.0.0.0:10256"   | "" | default | "127.0.0.1:1"
    metricsBindAddress                  | "127.0.0.1:10249" | "" | default | "0.0.0.0:1"
    bindAddressHardFail                 | false     | false  | default | true
    enableProfiling                     | false     | false  | default | true
    showHiddenMetricsForVersion         | ""        | ""     | default | "1.35"
    mode                                | "iptables" | ""    | default | -
    iptables.masqueradeBit              | 14        | 0      | counts  | 3
    iptables.masqueradeAll              | false     | false  | default | true
    iptables.localhostNodePorts         | true      | false  | counts  | -
    iptables.syncPeriod                 | "30s"     | "0s"   | default | "1m0s"
    iptables.minSyncPeriod              | "0s"      | "0s"   | default | "2s"
    ipvs.syncPeriod                     | "0s"      | "0s"   | default | "1s"
    ipvs.minSyncPeriod                  | "0s"      | "0s"   | default | "1s"
    ipvs.scheduler                      | ""        | ""     | default | "rr"
    ipvs.excludeCIDRs                   | null      | []     | counts  | ["10.0.0.0/8"]
    ipvs.strictARP                      | false     | false  | default | true
    ipvs.tcpTimeout                     | "0s"      | "0s"   | default | "1s"
    ipvs.tcpFinTimeout                  | "0s"      | "0s"   | default | "1s"
    ipvs.udpTimeout                     | "0s"      | "0s"   | default | "1s"
    nftables.masqueradeBit              | 14        | 0      | counts  | 3
    nftables.masqueradeAll              | false     | false  | default | true
    nftables.syncPeriod                 | "0s"      | "0s"   | default | "1s"
    nftables.minSyncPeriod              | "0s"      | "0s"   | default | "1s"
    winkernel.networkName               | ""        | ""     | default | "n"
    winkernel.sourceVip                 | ""        | ""     | default | "10.0.0.1"
    winkernel.enableDSR                 | false     | false  | default | true
    winkernel.rootHnsEndpointName       | ""        | ""     | default | "n"
    winkernel.forwardHealthCheckVip     | false     | false  | default | true
    detectLocalMode                     | "ClusterCIDR" | "" | default | "NodeCIDR"
    detectLocal.bridgeInterface         | ""        | ""     | default | "cbr0"
    detectLocal.interfaceNamePrefix     | ""        | ""     | default | "veth"
    clusterCIDR                         | ""        | ""     | default | "10.0.0.0/8"
    nodePortAddresses                   | null      | []     | counts  | ["primary"]
    oomScoreAdj                         | -999      | 0      | counts  | 7
    conntrack.maxPerCore                | 32768     | 0      | counts  | 7
    conntrack.min                       | 131072    | 0      | counts  | 7
    conntrack.tcpEstablishedTimeout     | "24h0m0s" | "0s"   | counts  | "1s"
    conntrack.tcpCloseWaitTimeout       | "1h0m0s"  | "0s"   | counts  | "1s"
    conntrack.tcpBeLiberal              | false     | false  | default | true
    conntrack.udpTimeout                | "0s"      | "0s"   | default | "1s"
    conntrack.udpStreamTimeout          | "0s"      | "0s"   | default | "1s"
    configSyncPeriod                    | "15m0s"   | "0s"   | default | "1m0s"
    portRange                           | ""        | ""     | default | "1-2"
    windowsRunAsService                 | null      | false  | default | true
"#;

struct Row {
    path: &'static str,
    default: Value,
    zero: Value,
    /// Zero is a value of its own and does not mean the default.
    counts: bool,
    other: Option<Value>,
}

fn rows() -> impl Iterator<Item = Row> {
    let lines = TABLE.lines().filter(|line| !line.is_empty());
    lines.map(|line| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [path, default, zero, counts, other] = columns[..] else {
            panic!("{line}")
        };
        let json = |text| serde_json::from_str(text).unwrap_or_else(|e| panic!("{line}: {e}"));
        Row {
            path,
            default: json(default),
            zero: json(zero),
            counts: counts == "counts",
            other: (other != "-").then(|| json(other)),
        }
    })
}

/// Resolves a file with this field and the gate that a value other than the default requires.
fn with_field(path: &str, value: &Value, default: &Value) -> Config {
    let mut tree: Value = serde_json::json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
    });
    let is_other = value != default && *value != Value::Null && *value != false;
    if path.starts_with("logging.options") && is_other {
        tree["featureGates"] = serde_json::json!({"LoggingAlphaOptions": true});
    }
    *path
        .split('.')
        .fold(&mut tree, |tree, name| &mut tree[name]) = value.clone();
    with_text("", &tree.to_string()).unwrap_or_else(|error| panic!("{path}: {value}: {error}"))
}

#[test]
fn every_field_has_a_row() {
    let mut paths: Vec<&str> = rows().map(|row| row.path).collect();
    let mut fields = leaves();
    paths.sort_unstable();
    fields.sort_unstable();
    assert_eq!(paths, fields);
}

#[test]
fn absent_null_and_most_zero_fields_have_the_default() {
    let empty = loaded("");
    for row in rows() {
        let path = row.path;
        assert_eq!(field_of(&empty, path), row.default, "{path}");
        let null = with_field(path, &Value::Null, &row.default);
        assert_eq!(null.configuration, empty.configuration, "{path}: null");
        let zero = with_field(path, &row.zero, &row.default);
        let expected = if row.counts { &row.zero } else { &row.default };
        assert_eq!(field_of(&zero, path), *expected, "{path}: zero");
    }
}

#[test]
fn set_fields_are_kept_and_those_without_effect_are_noted() {
    for row in rows() {
        let path = row.path;
        let Some(other) = row.other else { continue };
        let config = with_field(path, &other, &row.default);
        assert_eq!(field_of(&config, path), other, "{path}");
        let has_effect = !settings::without_effect()
            .iter()
            .any(|one| one.path == path);
        let note = format!("set, but without effect in this version: `{path}`");
        let expected: &[String] = if has_effect { &[] } else { &[note] };
        assert_eq!(config.notes, expected, "{path}");
    }
}

/// The recorded file is from --write-config-to of kube-proxy.
#[test]
fn defaults_equal_kube_proxy_except_min_sync_period() {
    const RECORDED: &str = include_str!("../../../tests/golden/upstream/default-config.yaml");
    const GAP: &str = "iptables.minSyncPeriod";

    let (recorded, overlooked) = kube_proxy::read(RECORDED).unwrap();
    assert_eq!(overlooked, None);
    let mut ours = KubeProxyConfiguration::defaults();
    ours.choose_modes();
    assert_eq!(kube_proxy::differing(&ours, &recorded), [GAP]);
    // It is read back as ours, but for that.
    let config = with_text("", RECORDED).unwrap();
    assert_eq!(field_of(&config, GAP), "1s");
    // Line by line: nothing is left out, and nothing added.
    let paths = |text: &str| {
        let lines = text
            .lines()
            .map(|line| line.split(": ").next().unwrap().to_owned());
        lines.collect::<Vec<_>>()
    };
    assert_eq!(paths(&ours.to_yaml()), paths(RECORDED));
}
