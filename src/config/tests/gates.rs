//! Feature gates: known, locked, removed and unknown.

use super::*;

#[track_caller]
fn check(gate: &str, expected: Result<(), &str>) {
    let outcome = configured(&format!("--feature-gates={gate}"));
    let problem = outcome.map(|_| ()).map_err(|error| {
        let problem = error.strip_prefix("--feature-gates: ").unwrap_or(&error);
        problem.to_owned()
    });
    assert_eq!(problem.as_ref().map_err(String::as_str).copied(), expected);
}

#[test]
fn gates_are_those_of_kube_proxy() {
    check("AllowServiceExternalIPs=false", Ok(()));
    check("WatchListClient=false,ClientsAllowCBOR=true", Ok(()));
    check("AllAlpha=true", Ok(()));
    check("PreferSameTrafficDistribution=true", Ok(()));
    check(
        "PreferSameTrafficDistribution=false",
        Err(
            "feature gate `PreferSameTrafficDistribution` must be true, got false\n\
             hint: remove the gate",
        ),
    );
    check(
        "GitRepoVolumeDriver=true",
        Err("feature gate `GitRepoVolumeDriver` must be false, got true\nhint: remove the gate"),
    );
    for gone in [
        "KubeProxyDrainingTerminatingNodes",
        "LoadBalancerIPMode",
        "MinimizeIPTablesRestore",
        "ProxyTerminatingEndpoints",
        "ServiceInternalTrafficPolicy",
        "ServiceTrafficDistribution",
        "TopologyAwareHints",
    ] {
        let problem = format!(
            "feature gate `{gone}` was removed: the feature is always on\nhint: remove the gate"
        );
        check(&format!("{gone}=true"), Err(&problem));
    }
    check(
        "allowServiceExternalIPs=true",
        Err(
            "unknown feature gate `allowServiceExternalIPs`; did you mean \
             `AllowServiceExternalIPs`?",
        ),
    );
    check(
        "Foo=true",
        Err("unknown feature gate `Foo`: kube-proxy v1.36 does not have it\nhint: remove the gate"),
    );
}

#[test]
fn external_ips_are_served_unless_the_gate_is_off() {
    use crate::model::ExternalIps::{Ignored, Served};

    let served = |flags| {
        let environment = configured(flags).unwrap().rules.render_settings;
        assert_eq!(
            environment.v4.fixed.external_ips,
            environment.v6.fixed.external_ips
        );
        environment.v4.fixed.external_ips
    };
    assert_eq!(served(""), Served);
    assert_eq!(
        served("--feature-gates=AllowServiceExternalIPs=true"),
        Served
    );
    assert_eq!(served("--feature-gates=AllowServiceExternalIPs=0"), Ignored);
}
