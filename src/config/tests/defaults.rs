//! Every field of a file: its value if absent, `null` or zero, and the note on it if it is set.
//!
//! Upstream: pkg/proxy/apis/config/v1alpha1/defaults_test.go (v1.37)

use super::*;
use crate::config::kube_proxy::{self, KubeProxyConfiguration};
use crate::config::settings::{self, SettingKind};

/// Written by --write-config-to of kube-proxy without flags.
const RECORDED: &str = include_str!("../../../tests/golden/upstream/default-config.yaml");

/// The only field with another default than in kube-proxy.
const GAP: &str = "iptables.minSyncPeriod";

/// Fields whose zero is a value of its own. In all others it means the default.
const ZERO_COUNTS: &[&str] = &[
    "iptables.masqueradeBit",
    "iptables.localhostNodePorts",
    "ipvs.excludeCIDRs",
    "nftables.masqueradeBit",
    "nodePortAddresses",
    "oomScoreAdj",
    "conntrack.maxPerCore",
    "conntrack.min",
    "conntrack.tcpEstablishedTimeout",
    "conntrack.tcpCloseWaitTimeout",
];

/// Values of fields that do not accept every text.
const VALID: &[(&str, &str)] = &[
    ("logging.format", "json"),
    ("bindAddress", "10.0.0.1"),
    ("healthzBindAddress", "127.0.0.1:1"),
    ("metricsBindAddress", "0.0.0.0:1"),
    ("showHiddenMetricsForVersion", "1.36"),
    ("mode", "iptables"),
    ("detectLocalMode", "NodeCIDR"),
    ("clusterCIDR", "10.0.0.0/8"),
    ("deltaproxy.serviceDispatch", "tree"),
];

/// Returns the zero of a kind, and another value.
fn values(kind: SettingKind) -> [Value; 2] {
    let [zero, other] = match kind {
        SettingKind::Bool => ["false", "true"],
        SettingKind::Int(_) | SettingKind::Within(..) | SettingKind::Number => ["0", "7"],
        SettingKind::Duration => [r#""0s""#, r#""1s""#],
        SettingKind::Text("QUANTITY") => [r#""0""#, r#""64Ki""#],
        SettingKind::List(_) => ["[]", r#"["10.0.0.0/8"]"#],
        SettingKind::Gates => ["{}", r#"{"AllAlpha":false}"#],
        SettingKind::VModules => ["[]", r#"[{"filePattern":"a","verbosity":1}]"#],
        _ => [r#""""#, r#""x""#],
    };
    [zero, other].map(|text| serde_json::from_str(text).unwrap())
}

/// Field of a file.
struct Row {
    path: &'static str,
    default: Value,
    zero: Value,
    counts: bool,
    other: Value,
}

fn rows() -> impl Iterator<Item = Row> {
    let (recorded, _) = kube_proxy::read(RECORDED).unwrap();
    let recorded = recorded.to_json();
    let fields = settings::all().filter(|setting| !setting.path.is_empty());
    fields.map(move |setting| {
        let path = setting.path;
        let [zero, other] = values(setting.kind);
        let valid = VALID.iter().find(|(field, _)| *field == path);
        let default = kube_proxy::field(&recorded, path);
        Row {
            path,
            default: if path == GAP {
                "0s".into()
            } else {
                default.cloned().unwrap_or_default()
            },
            zero,
            counts: ZERO_COUNTS.contains(&path),
            other: valid.map_or(other, |(_, text)| (*text).into()),
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
        let config = with_field(path, &row.other, &row.default);
        assert_eq!(field_of(&config, path), row.other, "{path}");
        let has_effect = !settings::without_effect()
            .iter()
            .any(|one| one.path == path);
        let note = format!("set, but without effect in this version: `{path}`");
        let expected: &[String] = if has_effect { &[] } else { &[note] };
        assert_eq!(noted(&config), expected, "{path}");
    }
}

#[test]
fn defaults_equal_kube_proxy_except_min_sync_period() {
    let (recorded, overlooked) = kube_proxy::read(RECORDED).unwrap();
    assert_eq!(overlooked, kube_proxy::IgnoredFields::default());
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
