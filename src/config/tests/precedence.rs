//! What counts if there is a file: the file, and a few flags.

use super::*;
use crate::host::BackendChoice;
use crate::render::PartialRestore;

#[test]
fn flags_with_fields_do_not_count_beside_a_file_and_are_named() {
    let flags = "--cluster-cidr=10.0.0.0/8 --iptables-min-sync-period=1s --oom-score-adj=3 \
                 --proxy-mode=ipvs --metrics-port=0 --kubeconfig=k";
    let config = with_file(flags, "oomScoreAdj: 5").unwrap();
    let expected = loaded("oomScoreAdj: 5");
    assert_eq!(config.configuration, expected.configuration);
    assert_eq!(config.pacer.gap, expected.pacer.gap);
    assert_eq!(
        config.notes[0],
        "--config takes the place of these flags: `--kubeconfig`, `--cluster-cidr`, \
         `--iptables-min-sync-period`, `--metrics-bind-address`, `--proxy-mode`, `--oom-score-adj`"
    );
}

/// Also if it is the default, which the file says no to; not if the file says the same.
#[test]
fn a_flag_is_in_vain_if_it_would_change_what_the_file_says() {
    let fields = "conntrack: {maxPerCore: 0}\niptables: {masqueradeAll: true}\n\
                  nodePortAddresses: [primary]\nfeatureGates: {AllAlpha: true}\n";
    let notes = |flags| with_file(flags, fields).unwrap().notes;
    assert_eq!(
        notes("--conntrack-max-per-core=32768 --masquerade-all=false --nodeport-addresses="),
        [
            "--config takes the place of these flags: `--conntrack-max-per-core`, \
          `--masquerade-all`, `--nodeport-addresses`"
        ]
    );
    let same = "--conntrack-max-per-core=0 --masquerade-all --nodeport-addresses=primary \
                --feature-gates=AllAlpha=true --proxy-mode=iptables --hostname-override=x --v=1";
    assert_eq!(notes(same), [] as [&str; 0]);
}

#[test]
fn the_name_given_as_a_flag_counts() {
    let name = |flags| {
        with_file(flags, "hostnameOverride: file")
            .unwrap()
            .rules
            .node_name
    };
    assert_eq!(name(""), "file");
    assert_eq!(name("--hostname-override="), "file");
    assert_eq!(name("--hostname-override=Flag"), "flag");
    assert!(
        with_file("--hostname-override=a", "")
            .unwrap()
            .notes
            .is_empty()
    );
}

#[test]
fn the_address_of_the_api_server_counts() {
    let config = with_file("--master=https://m", "clientConnection: {kubeconfig: k}");
    let Source::Cluster(options) = config.unwrap().rules.source else {
        panic!("no cluster")
    };
    assert_eq!(options.master.as_deref(), Some("https://m"));
    assert_eq!(options.kubeconfig, Some("k".into()));
}

#[test]
fn logging_flags_count_one_by_one() {
    let fields = "logging: {format: json, verbosity: 3, flushFrequency: 1s}";
    let config = with_file("--v=0", fields).unwrap();
    assert_eq!((config.verbosity, config.logging), (0, LoggingFormat::Json));
    let config = with_file("--logging-format=text", fields).unwrap();
    assert_eq!((config.verbosity, config.logging), (3, LoggingFormat::Text));
    let config = with_file("--log-flush-frequency=2s", fields).unwrap();
    assert_eq!(field_of(&config, "logging.flushFrequency"), "2s");
    let fields = "logging: {vmodule: [{filePattern: b, verbosity: 2}]}";
    let modules = field_of(
        &with_file("--vmodule=a=1", fields).unwrap(),
        "logging.vmodule",
    );
    assert_eq!(
        modules.to_string(),
        r#"[{"filePattern":"a","verbosity":1},{"filePattern":"b","verbosity":2}]"#
    );
}

#[test]
fn what_no_field_stands_for_counts() {
    let config = with_file(
        "--manifests=m --partial-restore=kep-3453 --iptables-backend=nft --dry-run",
        "clientConnection: {kubeconfig: k}",
    )
    .unwrap();
    assert!(matches!(config.rules.source, Source::Manifests { .. }));
    assert_eq!(config.shape, PartialRestore::Kep3453);
    assert_eq!(config.rules.backend, BackendChoice::Nft);
    assert!(config.is_dry_run);
    assert_eq!(config.notes, Vec::<String>::new());
    assert_eq!(config.file.unwrap().path.to_str(), Some("c.yaml"));
}

#[test]
fn what_is_done_in_place_of_running_is_said_by_flags() {
    let action = |flags| with_file(flags, "").unwrap().action;
    assert_eq!(action(""), Action::Run);
    assert_eq!(action("--config=c --init-only"), Action::Init);
    assert_eq!(action("--init_only=false --cleanup=t"), Action::Cleanup);
    assert_eq!(action("--cleanup --init-only=false"), Action::Cleanup);
    assert_eq!(
        with_file("--cleanup --init-only", "mode: x").map(|_| ()),
        Err("`c.yaml`: mode: `x` is no mode; write `iptables`\n\
             --init-only: cannot be done with --cleanup; leave out --init-only to remove all \
             rules, or --cleanup to prepare for a proxy"
            .to_owned())
    );
    assert!(typed("--cleanup=maybe").is_err());
    assert_eq!(
        with_file("--cleanup", "").unwrap().notes,
        Vec::<String>::new()
    );
}
