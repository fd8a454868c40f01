//! Precedence of the file and of flags.

use super::*;
use crate::host::BackendChoice;
use crate::render::PartialRestore;
use crate::sync::SyncMode;

#[test]
fn flags_with_fields_are_ignored_with_a_file_and_noted() {
    let flags = "--cluster-cidr=10.0.0.0/8 --iptables-min-sync-period=1s --oom-score-adj=3 \
                 --proxy-mode=ipvs --metrics-port=0 --kubeconfig=k";
    let config = with_file(flags, "oomScoreAdj: 5").unwrap();
    let expected = loaded("oomScoreAdj: 5");
    assert_eq!(config.configuration, expected.configuration);
    assert_eq!(config.pacer.gap, expected.pacer.gap);
    assert_eq!(
        noted(&config)[0],
        "flags ignored because --config is set: `--kubeconfig`, `--cluster-cidr`, \
         `--iptables-min-sync-period`, `--metrics-bind-address`, `--proxy-mode`, `--oom-score-adj`"
    );
}

/// This holds for a flag with the default if the file has another value.
#[test]
fn an_ignored_flag_is_noted_if_its_value_differs_from_the_file() {
    let fields = "conntrack: {maxPerCore: 0}\niptables: {masqueradeAll: true}\n\
                  nodePortAddresses: [primary]\nfeatureGates: {AllBeta: true}\n";
    let notes = |flags| noted(&with_file(flags, fields).unwrap());
    assert_eq!(
        notes("--conntrack-max-per-core=32768 --masquerade-all=false --nodeport-addresses="),
        [
            "flags ignored because --config is set: `--conntrack-max-per-core`, \
          `--masquerade-all`, `--nodeport-addresses`"
        ]
    );
    let same = "--conntrack-max-per-core=0 --masquerade-all --nodeport-addresses=primary \
                --feature-gates=AllBeta=true --proxy-mode=iptables --hostname-override=x --v=1";
    assert_eq!(notes(same), [] as [&str; 0]);
}

#[test]
fn hostname_override_flag_overrides_the_file() {
    let name = |flags| {
        let config = with_file(flags, "hostnameOverride: file");
        config.unwrap().rules.node_name
    };
    assert_eq!(name(""), "file");
    assert_eq!(name("--hostname-override="), "file");
    assert_eq!(name("--hostname-override=Flag"), "flag");
    assert!(noted(&with_file("--hostname-override=a", "").unwrap()).is_empty());
}

#[test]
fn master_flag_overrides_the_file() {
    let config = with_file("--master=https://m", "clientConnection: {kubeconfig: k}");
    let Source::Cluster(options) = config.unwrap().rules.source else {
        panic!("no cluster")
    };
    assert_eq!(options.master.as_deref(), Some("https://m"));
    assert_eq!(options.kubeconfigs, [std::path::Path::new("k")]);
}

#[test]
fn each_logging_flag_overrides_the_file() {
    let fields = "logging: {format: json, verbosity: 3, flushFrequency: 1s}";
    let config = with_file("--v=0", fields).unwrap();
    assert_eq!((config.verbosity, config.logging), (0, LoggingFormat::Json));
    let config = with_file("--logging-format=text", fields).unwrap();
    assert_eq!((config.verbosity, config.logging), (3, LoggingFormat::Text));
    let config = with_file("--log-flush-frequency=2s", fields).unwrap();
    assert_eq!(field_of(&config, "logging.flushFrequency"), "2s");
    let fields = "logging: {vmodule: [{filePattern: b, verbosity: 2}]}";
    let config = with_file("--vmodule=a=1", fields).unwrap();
    let modules = field_of(&config, "logging.vmodule");
    assert_eq!(
        modules.to_string(),
        r#"[{"filePattern":"a","verbosity":1},{"filePattern":"b","verbosity":2}]"#
    );
}

#[test]
fn flags_without_fields_are_valid_with_a_file() {
    let config = with_file(
        "--manifests=m --partial-restore=kep-3453 --iptables-backend=nft --dry-run",
        "clientConnection: {kubeconfig: k}",
    )
    .unwrap();
    assert!(matches!(
        config.rules.source,
        Source::Manifests {
            assumes_load_balancer_ips: false,
            ..
        }
    ));
    assert_eq!(config.partial_restore, PartialRestore::Kep3453);
    assert_eq!(config.rules.backend, BackendChoice::Nft);
    assert_eq!(config.mode, SyncMode::DryRun);
    assert_eq!(noted(&config), [""; 0]);
    assert_eq!(config.file.unwrap().path.to_str(), Some("c.yaml"));
}

/// The addresses of a file are those of the kube-proxy that runs.
#[test]
fn a_shadow_has_addresses_of_its_own() {
    let file = "metricsBindAddress: 127.0.0.1:9\nhealthzBindAddress: 127.0.0.1:8";
    let addresses = |flags: &str| {
        let config = with_file(flags, file).unwrap();
        assert_eq!(noted(&config), [""; 0]);
        let serving = config.serving;
        [serving.metrics, serving.healthz].map(|address| address.unwrap().to_string())
    };
    let defaults = ["127.0.0.1:10349", "0.0.0.0:10356"];
    assert_eq!(addresses("--shadow"), defaults);
    let flags = "--shadow --metrics-bind-address=1.2.3.4:5 --healthz-bind-address=1.2.3.4:6";
    assert_eq!(addresses(flags), ["1.2.3.4:5", "1.2.3.4:6"]);
    let flags = "--shadow --metrics-bind-address-override=1.2.3.4:7";
    assert_eq!(addresses(flags), ["1.2.3.4:7", "0.0.0.0:10356"]);
    assert!(with_file("--shadow --dry-run", file).is_err());
}

/// kube-proxy ignores --metrics-bind-address next to a file, and the file may be another program's.
#[test]
fn an_override_of_the_metrics_address_applies_with_a_file() {
    let file = "metricsBindAddress: 127.0.0.1:9";
    let address = |flags: &str| {
        let config = with_file(flags, file).unwrap();
        let served = config.serving.metrics.map(|address| address.to_string());
        let served = served.unwrap_or_else(|| "off".to_owned());
        assert_eq!(field_of(&config, "metricsBindAddress"), served);
        served
    };
    assert_eq!(address("--metrics-bind-address=1.2.3.4:5"), "127.0.0.1:9");
    for (value, served) in [
        ("0.0.0.0:10249", "0.0.0.0:10249"),
        ("10.0.0.7", "10.0.0.7:10249"),
        ("fd00::7", "[fd00::7]:10249"),
        ("off", "off"),
        ("", "off"),
    ] {
        let flag = format!("--metrics-bind-address-override={value}");
        assert_eq!(address(&flag), served, "{value}");
    }
    let both = "--metrics-bind-address=1.2.3.4:5 --metrics-bind-address-override=1.2.3.4:6";
    let metrics = configured(both).unwrap().serving.metrics;
    assert_eq!(metrics, "1.2.3.4:6".parse().ok());
}

#[test]
fn one_shot_actions_are_flags_only() {
    let action = |flags| with_file(flags, "").unwrap().action;
    assert_eq!(action(""), Action::Run);
    assert_eq!(action("--config=c --init-only"), Action::Init);
    assert_eq!(action("--init_only=false --cleanup=t"), Action::Cleanup);
    assert_eq!(action("--cleanup --init-only=false"), Action::Cleanup);
    assert_eq!(
        with_file("--cleanup --init-only", "mode: x").map(|_| ()),
        Err("`c.yaml`: mode: unknown proxy mode `x`: must be iptables\n\
             --cleanup and --init-only are mutually exclusive\n\
             hint: remove --init-only to remove all rules, or --cleanup to prepare the node"
            .to_owned())
    );
    assert!(with_file("--cleanup=maybe", "").is_err());
    assert_eq!(noted(&with_file("--cleanup", "").unwrap()), [""; 0]);
}
