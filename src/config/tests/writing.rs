//! The configuration as a file, and that file read again.

use super::*;
use crate::config::kube_proxy::KubeProxyConfiguration;

/// Values of every type that a field may have, and texts that YAML could decode as another type.
fn values() -> Vec<Value> {
    let json = r##"[
        true, false, 0, 1, -7, 4294967295, 0.5,
        "", "off", "no", "~", "null", "true", "0x10", "010", "1e3", ".inf", "2024-01-01", "a: b",
        "- a", "# a", "&a", "*a", "!a", "%a", "@a", "`a`", "{a}", "[a", "'", "\"", "\\n", " a ",
        "two\nlines", "tab\t", "\u0000", "\u0085", "\u2028", "\ufeff", "\u00fc",
        "30s", "1h0.5s", "-1ns", "64Ki", "fd00::1", "::", "10.0.0.1", "[::]:1",
        [], [""], ["10.0.0.0/8", "primary", "~"],
        {}, {"AllAlpha": true, "AllBeta": false}, {"true": true},
        [{"filePattern": "a*", "verbosity": 3}, {"filePattern": ""}]
    ]"##;
    serde_json::from_str(json).unwrap()
}

/// A configuration with these fields, if the values are of their types.
fn with_fields<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Option<KubeProxyConfiguration> {
    let mut tree = Value::Object(serde_json::Map::new());
    for (path, value) in fields {
        let place = path
            .split('.')
            .fold(&mut tree, |tree, name| &mut tree[name]);
        *place = value.clone();
    }
    serde_json::from_value(tree).ok()
}

#[track_caller]
fn written_and_read(given: &KubeProxyConfiguration, what: &str) {
    let text = given.to_yaml();
    let (read, overlooked) =
        kube_proxy::read(&text).unwrap_or_else(|error| panic!("{what}: {error:?}\n{text}"));
    assert_eq!(
        overlooked,
        kube_proxy::IgnoredFields::default(),
        "{what}: {text}"
    );
    let mut read = read.with_defaults();
    read.choose_modes();
    assert_eq!(&read, given, "{what}: {text}");
    assert_eq!(read.to_yaml(), text, "{what}");
}

#[test]
fn every_field_is_read_as_it_is_written_whatever_its_value() {
    let (values, paths) = (values(), leaves());
    let defaults = || {
        let mut configuration = KubeProxyConfiguration::defaults();
        configuration.choose_modes();
        configuration
    };
    for path in &paths {
        let mut fitting = 0;
        for value in &values {
            let Some(alone) = with_fields([(path.as_str(), value)]) else {
                continue;
            };
            let mut alone = alone.with_defaults();
            alone.choose_modes();
            fitting += usize::from(alone != defaults());
            written_and_read(&alone, &format!("{path}: {value}"));
        }
        assert!(fitting > 0, "no value of {path} was tried");
    }
    // All fields at once, each with another value.
    for shift in 0..values.len() {
        let turned = |path| {
            let mut tried = values.iter().cycle().skip(shift).take(values.len());
            tried.find(|value| with_fields([(path, *value)]).is_some())
        };
        let fields = paths
            .iter()
            .filter_map(|path| Some((path.as_str(), turned(path.as_str())?)));
        let mut all = with_fields(fields).unwrap().with_defaults();
        all.choose_modes();
        written_and_read(&all, "all");
    }
}

/// In a file, zero means the default.
#[test]
fn a_zero_min_sync_period_is_only_possible_as_a_flag() {
    let typed = configured("--iptables-min-sync-period=0").unwrap();
    let read = with_text("", &typed.configuration.to_yaml()).unwrap();
    assert_ne!(read.pacer.gap, typed.pacer.gap);
}

/// The recorded answer of kube-proxy v1.37.2, read as a file and encoded again.
#[test]
fn configz_equals_kube_proxy() {
    let answer = include_str!("../../../tests/golden/upstream/configz.json");
    let tree: Value = serde_json::from_str(answer).unwrap();
    let file = tree["kubeproxy.config.k8s.io"].to_string();
    let read = with_text("", &file).unwrap();
    let encoded: Value = serde_json::from_str(&read.configuration.to_configz()).unwrap();
    assert_eq!(encoded, tree);
}

/// The recorded answer of kube-proxy v1.37.2 to the same flags, except a flag that differs.
#[test]
fn flagz_equals_kube_proxy() {
    let answer = include_str!("../../../tests/golden/upstream/flagz.txt");
    let args = [
        "deltaproxy",
        "run",
        "--config=/var/lib/kube-proxy/config.conf",
        "-v=2",
        "--hostname-override= Node-A ",
    ];
    let Command::Run(args) = Cli::parse_from(args).command else {
        panic!("not `run`");
    };
    let file = ConfigFile {
        path: "/var/lib/kube-proxy/config.conf".into(),
        text: HEADER.to_owned(),
    };
    let flags = run(&args, Some(&file), "n").unwrap().flags;
    let pairs = answer
        .lines()
        .skip(3)
        .map(|line| line.split_once(':').unwrap());
    for (name, value) in pairs {
        let ours = flags.get(name).map(String::as_str);
        match name {
            // Not set: the CPU budget decides, and a zero that was typed means no interval.
            "iptables-min-sync-period" => assert_eq!(ours, Some("")),
            _ => assert_eq!(ours, Some(value), "{name}"),
        }
    }
}

#[test]
fn flagz_shows_what_was_typed() {
    let flags = configured(
        "--feature-gates=AllBeta=true,AllAlpha=true --nodeport-addresses=10.0.0.0/8,fd00::/8 \
         --vmodule=a*=1 --manifests=x --partial-restore=kep-3453 --healthz-bind-address=::1 \
         --metrics-port=0 --ipvs-sync-period=90s --log-text-split-stream \
         --iptables-min-sync-period=0",
    );
    let flags = flags.unwrap().flags;
    for (name, value) in [
        ("feature-gates", "AllAlpha=true,AllBeta=true"),
        ("nodeport-addresses", "[10.0.0.0/8,fd00::/8]"),
        ("vmodule", "a*=1"),
        ("manifests", "x"),
        ("partial-restore", "kep-3453"),
        ("healthz-bind-address", "::1"),
        ("metrics-bind-address", "off"),
        ("metrics-port", "0"),
        ("ipvs-sync-period", "1m30s"),
        ("iptables-min-sync-period", "0s"),
        ("log-text-split-stream", "true"),
    ] {
        assert_eq!(flags[name], value, "{name}");
    }
}
