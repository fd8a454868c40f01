//! Flags of kube-proxy: the field that each one sets, and its type.

use super::*;
use crate::config::kube_proxy;
use crate::config::settings::{self, SettingKind};

/// Returns a text for a flag of a kind, and the field as it is then written.
fn sample(kind: SettingKind) -> (&'static str, &'static str) {
    match kind {
        SettingKind::Int(_) => ("0x10", "16"),
        SettingKind::Within(..) => ("4", "4"),
        SettingKind::Number => ("7.5", "7.5"),
        SettingKind::Duration => ("90s", r#""1m30s""#),
        SettingKind::Text(_) | SettingKind::FilledText(_) => ("x", r#""x""#),
        SettingKind::NodeName => ("X", r#""x""#),
        SettingKind::List(_) => ("a,,b", r#"["a","b"]"#),
        SettingKind::Gates => ("B=t,A=f", r#"{"A":false,"B":true}"#),
        SettingKind::VModules => ("a*=3", r#"[{"filePattern":"a*","verbosity":3}]"#),
        SettingKind::Word(..) => ("tree", r#""tree""#),
        other => panic!("{other:?} has no field"),
    }
}

#[test]
fn every_flag_sets_its_field() {
    let fields = |flags: &str| {
        let args = typed(flags).unwrap();
        assert_eq!(args.flags.problems(), [], "{flags}");
        args.flags.configuration().to_json()
    };
    let usual = fields("");
    let has_field = |setting: &&settings::Setting| ![setting.flag, setting.path].contains(&"");
    for setting in settings::all().filter(has_field) {
        let field = |fields: &Value| kube_proxy::field(fields, setting.path).cloned();
        let before = field(&usual);
        let (text, expected) = match setting.kind {
            SettingKind::Bool if before == Some(true.into()) => ("0", "false"),
            SettingKind::Bool => ("T", "true"),
            kind => sample(kind),
        };
        let flag = format!("--{}={text}", setting.flag);
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(field(&fields(&flag)), Some(expected.clone()), "{flag}");
        assert_ne!(before, Some(expected), "{flag} is the default");
    }
}

#[test]
fn an_empty_bind_address_or_node_name_counts_as_absent() {
    let usual = configured("").unwrap();
    let empty = configured("--bind-address= --hostname-override= --nodeport-addresses=").unwrap();
    assert_eq!(empty.configuration, usual.configuration);
}

#[test]
fn an_infinite_rate_is_a_rate() {
    let config = configured("--kube-api-qps=inf").unwrap();
    let Source::Cluster(options) = config.rules.source else {
        panic!("no cluster")
    };
    assert!(options.rate_limit.qps > 1e38);
}

#[test]
fn the_last_of_two_flags_counts_and_lists_and_gates_add_up() {
    let config = configured("--oom-score-adj=1 --oom-score-adj -5 -v 1 --v=3").unwrap();
    assert_eq!(config.node.oom_score_adj, -5);
    assert_eq!(config.verbosity, 3);
    let gates = "--feature-gates=AllAlpha=true --feature-gates=AllAlpha=false,AllBeta=true";
    let gates = field_of(&configured(gates).unwrap(), "featureGates");
    assert_eq!(gates.to_string(), r#"{"AllAlpha":false,"AllBeta":true}"#);
    let modules = configured("--vmodule=a=1 --vmodule=b=2").unwrap();
    let modules = field_of(&modules, "logging.vmodule");
    assert_eq!(modules.as_array().map(Vec::len), Some(2));
    let addresses = "--nodeport-addresses=10.0.0.0/8 --nodeport-addresses=11.0.0.0/8";
    let addresses = field_of(&configured(addresses).unwrap(), "nodePortAddresses");
    assert_eq!(addresses.to_string(), r#"["10.0.0.0/8","11.0.0.0/8"]"#);
}

#[test]
fn numbers_are_those_of_go() {
    let bit = |text: &str| {
        let config = configured(&format!("--iptables-masquerade-bit={text}"))?;
        Ok(config.rules.render_settings.v4.fixed.masquerade.bit)
    };
    let good = "7=7 +7=7 0=0 00=0 -0=0 010=8 0o17=15 0x1F=31 0X_1f=31 0b1_1=3 1_0=10 0_7=7";
    for (text, expected) in good.split(' ').filter_map(|pair| pair.split_once('=')) {
        let expected = expected.parse().unwrap();
        assert_eq!(bit(text), Ok::<_, String>(expected), "{text}");
    }
    for text in [
        "", "-", "08", "0x", "_1", "1_", "1__0", "0_x1", "0_B1", "0x+1", "--1", "1.0", "1e1", "٣",
    ] {
        let error = bit(text).expect_err(text);
        assert!(error.contains("is not a valid integer"), "{error}");
    }
    let error = bit("-0x1").unwrap_err();
    assert!(error.contains("must be from 0 to 31, got -1"), "{error}");
    let error = configured("--conntrack-min=3000000000").unwrap_err();
    let range = "must be from -2147483648 to 2147483647, got 3000000000";
    assert!(error.contains(range), "{error}");
    let old = "--healthz-bind-address=::1 --healthz-port=0x10";
    assert_eq!(served(old).1, "[::1]:16");
}

#[test]
fn deprecated_ports_complete_addresses_without_a_port() {
    let both = |metrics: &str, healthz: &str| (metrics.to_owned(), healthz.to_owned());
    let defaults = both("127.0.0.1:10249", "0.0.0.0:10256");
    assert_eq!(served("--healthz-port=1 --metrics-port=2"), defaults);
    let incomplete = "--healthz-port=1 --healthz-bind-address=::1 \
                      --metrics-port=2 --metrics-bind-address=0.0.0.0";
    assert_eq!(served(incomplete), both("0.0.0.0:2", "[::1]:1"));
    let complete = "--healthz-port=1 --healthz-bind-address=[::1]:3";
    assert_eq!(served(complete), both("127.0.0.1:10249", "[::1]:3"));
    // Brackets are for an address with a port.
    let error = configured("--healthz-port=1 --healthz-bind-address=[::1]").unwrap_err();
    assert!(error.contains("`[::1]` is not a valid address"), "{error}");
}

#[test]
fn servers_can_be_switched_off() {
    for flags in [
        "--healthz-port=0 --metrics-port=0",
        "--healthz-bind-address= --metrics-bind-address=",
        "--healthz-bind-address=off --metrics-bind-address=off",
        "--healthz-bind-address=off --healthz-port=1 --metrics-bind-address=::1 --metrics-port=0",
    ] {
        assert_eq!(served(flags), (String::new(), String::new()), "{flags}");
    }
    let serving = loaded("metricsBindAddress: \"off\"\nhealthzBindAddress: \"off\"").serving;
    assert_eq!((serving.metrics, serving.healthz), (None, None));
    // kubeadm writes this for the defaults.
    let serving = loaded("metricsBindAddress: \"\"\nhealthzBindAddress: \"\"").serving;
    assert!(serving.metrics.is_some() && serving.healthz.is_some());
}

/// Addresses of metrics and health; empty if disabled.
fn served(flags: &str) -> (String, String) {
    let serving = configured(flags).unwrap().serving;
    let [metrics, healthz] = [serving.metrics, serving.healthz].map(|address| {
        address
            .map(|address| address.to_string())
            .unwrap_or_default()
    });
    (metrics, healthz)
}
