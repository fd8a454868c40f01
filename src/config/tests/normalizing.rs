//! Command lines before clap sees them.

use super::*;

/// Checks a case `TYPED => NORMALIZED`.
#[track_caller]
fn check(case: &str) {
    let (typed, expected) = case.split_once(" => ").unwrap();
    let normal = normalize(typed.split(' ').map(Into::into));
    let normal: Vec<_> = normal.iter().map(|arg| arg.to_string_lossy()).collect();
    assert_eq!(normal.join(" "), expected);
}

#[test]
fn flags_without_a_command_imply_run() {
    check("deltaproxy --v=2 => deltaproxy run --v=2");
    check("deltaproxy -v 2 => deltaproxy run -v 2");
    check("deltaproxy run --v=2 => deltaproxy run --v=2");
    check("deltaproxy render --v=2 => deltaproxy render --v=2");
    check("deltaproxy => deltaproxy");
    check("kube-proxy => kube-proxy run");
    check("/usr/local/bin/kube-proxy --v=2 => /usr/local/bin/kube-proxy run --v=2");
    check("/kube-proxy/deltaproxy => /kube-proxy/deltaproxy");
    check("kube-proxy run --v=2 => kube-proxy run --v=2");
}

#[test]
fn help_and_version_do_not_imply_run() {
    for question in ["-h", "--help", "-V", "--version"] {
        check(&format!("deltaproxy {question} => deltaproxy {question}"));
    }
}

#[test]
fn underscores_are_dashes_in_names_only() {
    check("d run --cluster_cidr=10.0.0.0/8 => d run --cluster-cidr=10.0.0.0/8");
    check("d run --hostname_override=a_b=c_d => d run --hostname-override=a_b=c_d");
    check("d run --pod_bridge-interface cbr_0 => d run --pod-bridge-interface cbr_0");
    check("d run -v 2 => d run -v 2");
}

#[cfg(feature = "tools")]
#[test]
fn the_plugin_takes_flags_in_front_of_the_command() {
    check("kubectl-deltaproxy -n shop services => kubectl-deltaproxy services -n shop");
    check(
        "kubectl-deltaproxy --namespace=shop -A --context services explain web => \
         kubectl-deltaproxy explain --namespace=shop -A --context services web",
    );
    check(
        "kubectl-deltaproxy -nshop -o wide services => kubectl-deltaproxy services -nshop -o wide",
    );
    check("kubectl-deltaproxy -v explain web => kubectl-deltaproxy explain -v web");
    check("kubectl-deltaproxy services -n shop => kubectl-deltaproxy services -n shop");
    check("kubectl-deltaproxy --help => kubectl-deltaproxy --help");
    check("kubectl-deltaproxy -n shop => kubectl-deltaproxy -n shop");
    check("deltaproxy -n shop services => deltaproxy run -n shop services");
}
