//! Configuration files: decoding, ignored fields, and the file of kubeadm.
//!
//! Upstream: `cmd/kube-proxy/app/options_test.go`,
//! `pkg/proxy/apis/config/v1alpha1/defaults_test.go` (v1.37)

use super::*;
use crate::sync::Gap;
use crate::watch::api::ApiOptions;

const KUBEADM: &str = include_str!("../../../tests/config/kubeadm.yaml");

/// Checks that a file is rejected with one line that contains `part`.
#[track_caller]
fn refused(text: &str, part: &str) {
    let error = with_text("", text).map(|_| ()).expect_err(text);
    assert!(error.contains(part), "{text}: {error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn an_empty_file_equals_no_flags() {
    let (file, flags) = (loaded(""), configured("").unwrap());
    assert_eq!(file.configuration, flags.configuration);
    assert_eq!(file.serving, flags.serving);
    assert_eq!(file.node, flags.node);
    assert_eq!(file.pacer.gap, Gap::Budget(None));
    assert_eq!(noted(&file), [""; 0]);
}

#[test]
fn zero_and_null_fields_of_kubeadm_have_the_default() {
    let config = with_text("", KUBEADM).unwrap();
    let flags = configured("--cluster-cidr=10.244.0.0/16");
    let mut expected = flags.unwrap().configuration;
    "/var/lib/kube-proxy/kubeconfig.conf".clone_into(&mut expected.client_connection.kubeconfig);
    assert_eq!(config.configuration, expected);
    assert_eq!(noted(&config), [""; 0]);
    let cluster = Source::Cluster(ApiOptions {
        kubeconfigs: vec!["/var/lib/kube-proxy/kubeconfig.conf".into()],
        ..ApiOptions::default()
    });
    assert_eq!(config.rules.source, cluster);
}

#[test]
fn json_files_are_decoded() {
    let text = |fields: &str| {
        format!(
            "{{\"kind\": \"KubeProxyConfiguration\",\n\t\
             \"apiVersion\": \"kubeproxy.config.k8s.io/v1alpha1\"{fields}}}"
        )
    };
    let config = with_text("", &text(",\n\t\"oomScoreAdj\": 7, \"iptables\": null")).unwrap();
    assert_eq!(config.node.oom_score_adj, 7);
    let wrong = text(",\n\"oomScoreAdj\": \"7\"");
    refused(&wrong, "`c.yaml`: oomScoreAdj: invalid type");
    refused(&text(","), "`c.yaml`, line 2: ");
    let twice = text(", \"oomScoreAdj\": 7, \"oomScoreAdj\": 8, \"x\": 1");
    let config = with_text("", &twice).unwrap();
    assert_eq!(config.node.oom_score_adj, 8);
    let notes = &noted(&config)[0];
    assert!(
        notes.contains("unknown fields `x` ignored; line 2: duplicate field"),
        "{notes}"
    );
}

#[test]
fn the_header_is_required() {
    refused(
        "",
        "apiVersion must be `kubeproxy.config.k8s.io/v1alpha1`, but is missing",
    );
    refused(
        "kind: KubeProxyConfiguration\n",
        "v1alpha1`, but is missing",
    );
    let (version, kind) = HEADER.split_once('\n').unwrap();
    refused(
        version,
        "kind must be `KubeProxyConfiguration`, but is missing",
    );
    refused(
        &format!("{version}\nkind: KubeletConfiguration"),
        "kind must be `KubeProxyConfiguration`, got `KubeletConfiguration`",
    );
    refused(
        &HEADER.replace("v1alpha1", "v1beta1"),
        ", got `kubeproxy.config.k8s.io/v1beta1`",
    );
    refused(
        &format!("{kind}apiVersion: 1"),
        ", got a value that is not a string",
    );
}

/// Fields, the path that the error names, and its words.
const WRONG_TYPES: &str = "\
hostnameOverride: 123                              | hostnameOverride             | string
oomScoreAdj: '5'                                   | oomScoreAdj                  | i32
oomScoreAdj: 1.5                                   | oomScoreAdj                  | i32
oomScoreAdj: 3000000000                            | oomScoreAdj                  | i32
conntrack: [1, 2]                                  | conntrack                    | must be an object, got [1,2]
iptables: 5                                        | iptables                     | must be an object, got 5
iptables: {syncPeriod: 30}                         | iptables.syncPeriod          | string
iptables: {syncPeriod: soon}                       | iptables.syncPeriod          | `soon` is not a valid duration
nodePortAddresses: primary                         | nodePortAddresses            | sequence
enableProfiling: maybe                             | enableProfiling              | boolean
featureGates: {AllAlpha: 1}                        | featureGates.AllAlpha        | boolean
logging: {verbosity: -1}                           | logging.verbosity            | u32
logging: {vmodule: [{verbosity: x}]}               | logging.vmodule[0].verbosity | u32
logging: {flushFrequency: [1]}                     | logging.flushFrequency       | duration
logging: {options: {text: {infoBufferSize: [1]}}}  | logging.options.text.infoBufferSize | quantity
logging: {options: {text: {infoBufferSize: big}}}  | logging.options.text.infoBufferSize | requires feature gate
";

#[test]
fn wrong_types_are_fatal_and_named() {
    for line in WRONG_TYPES.lines() {
        let columns: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let text = format!("{HEADER}{}", columns[0]);
        refused(&text, &format!("`c.yaml`: {}: ", columns[1]));
        refused(&text, columns[2]);
    }
    let long = with_file("", &format!("iptables: [{}]", "1,".repeat(10_000))).unwrap_err();
    assert!(long.len() < 300, "{long}");
}

#[test]
fn only_the_first_document_counts() {
    let fields = format!("---\n{HEADER}oomScoreAdj: 1\n---\n{HEADER}oomScoreAdj: 2\n");
    assert_eq!(with_text("", &fields).unwrap().node.oom_score_adj, 1);
    loaded("---\n");
}

#[test]
fn invalid_yaml_is_rejected_with_its_line() {
    refused(&format!("{HEADER}clientConnection: [\n"), "`c.yaml`, line ");
    refused("just text", "v1alpha1`, but is missing");
}

#[test]
fn unknown_and_repeated_fields_are_ignored_and_noted() {
    let fields = "foo: 1\niptables: {bar: 2, syncPeriod: 30s}\n\
                  logging: {vmodule: [{x: 1, filePattern: a}]}\n";
    assert_eq!(
        noted(&loaded(fields))[0],
        "lenient decoding of `c.yaml`: unknown fields `foo`, `iptables.bar`, \
         `logging.vmodule[0].x` ignored"
    );
    let config =
        loaded("oomScoreAdj: -999\nconntrack: {min: 131072}\noomScoreAdj: 1\noomScoreAdj: 2\n");
    assert_eq!(config.node.oom_score_adj, 2);
    let note = &noted(&config)[0];
    let start = "lenient decoding of `c.yaml`: line 5: ";
    let end = ", last value used";
    assert!(note.starts_with(start) && note.ends_with(end), "{note}");
    assert!(note.contains("oomScoreAdj"), "{note}");
    let config = loaded("conntrack:\n  min: 1\n  min: 2\n");
    assert_eq!(config.node.conntrack.min, 2);
    let expected = "line 5: duplicate field `min`, last value used";
    assert!(noted(&config)[0].ends_with(expected), "{config:?}");
}

#[test]
fn addresses_in_files_may_lack_their_port() {
    let config = loaded("healthzBindAddress: 10.0.0.1\nmetricsBindAddress: '::1'\n");
    assert_eq!(
        config.serving.healthz.unwrap().to_string(),
        "10.0.0.1:10256"
    );
    assert_eq!(config.serving.metrics.unwrap().to_string(), "[::1]:10249");
}
