//! Pods of proxies: which program they run, and at which port.

use super::*;

#[track_caller]
fn check(pod: &str, program: &ProxyProgram) {
    let pod: PodObject = serde_json::from_str(pod).unwrap();
    assert_eq!(&ProxyPod::from(pod).program, program);
}

const fn deltaproxy(metrics_port: u16) -> ProxyProgram {
    ProxyProgram::Deltaproxy { metrics_port }
}

#[test]
fn a_pod_is_of_deltaproxy_by_label_image_or_command() {
    check(
        r#"{"metadata": {"labels": {"k8s-app": "deltaproxy"}}}"#,
        &deltaproxy(10249),
    );
    check(
        r#"{"metadata": {"labels": {"k8s-app": "kube-proxy"}},
            "spec": {"containers": [{"image": "registry:5000/x/deltaproxy@sha256:00",
                                     "ports": [{"name": "healthz", "containerPort": 1},
                                               {"name": "metrics", "containerPort": 11249}]}]}}"#,
        &deltaproxy(11249),
    );
    check(
        r#"{"metadata": {"labels": {"k8s-app": "deltaproxy-shadow"}}}"#,
        &deltaproxy(10349),
    );
    check(
        r#"{"spec": {"containers": [{"command": ["/usr/local/bin/deltaproxy", "run"]}]}}"#,
        &deltaproxy(10249),
    );
}

#[test]
fn other_pods_are_of_kube_proxy() {
    let container = |name: &str| ProxyProgram::KubeProxy {
        container: name.to_owned(),
    };
    check(
        r#"{"metadata": {"labels": {"k8s-app": "kube-proxy"}},
            "spec": {"containers": [{"name": "sidecar"},
                                    {"name": "kube-proxy", "image": "kube-proxy:v1.37.2",
                                     "command": ["kube-proxy", "--v=2"]}]}}"#,
        &container("kube-proxy"),
    );
    check(
        r#"{"spec": {"containers": [{"name": "proxy"}]}}"#,
        &container("proxy"),
    );
}
