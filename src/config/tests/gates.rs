//! Feature gates: known, fixed, gone and made up.

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
        Err("`PreferSameTrafficDistribution` is always true; leave it out"),
    );
    check(
        "GitRepoVolumeDriver=true",
        Err("`GitRepoVolumeDriver` is always false; leave it out"),
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
        let problem = format!("`{gone}` is gone since it is always on; leave it out");
        check(&format!("{gone}=true"), Err(&problem));
    }
    check(
        "allowServiceExternalIPs=true",
        Err("`allowServiceExternalIPs` is no feature gate of kube-proxy v1.36; leave it out"),
    );
}

#[test]
fn external_ips_are_served_unless_the_gate_says_no() {
    use crate::model::ExternalIps::{Ignored, Served};

    let served = |flags| {
        let surroundings = configured(flags).unwrap().rules.surroundings;
        assert_eq!(
            surroundings.v4.fixed.external_ips,
            surroundings.v6.fixed.external_ips
        );
        surroundings.v4.fixed.external_ips
    };
    assert_eq!(served(""), Served);
    assert_eq!(
        served("--feature-gates=AllowServiceExternalIPs=true"),
        Served
    );
    assert_eq!(served("--feature-gates=AllowServiceExternalIPs=0"), Ignored);
}
