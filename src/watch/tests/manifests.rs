//! Files of manifests, read once.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::watch::manifests::{
    CLUSTER_IPS, ManifestError, ManifestErrors, ManifestOptions, Manifests, Validation, load,
};

pub(super) fn options() -> ManifestOptions {
    ManifestOptions::new("here".into())
}

pub(super) fn service(name: &str, spec: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

/// A directory with these files; a name may lead through subdirectories.
pub(super) fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn load_files(files: &[(&str, &str)]) -> Result<Manifests, ManifestError> {
    let loaded = load(directory(files).path(), &options(), Validation::Lenient);
    loaded.map_err(|ManifestErrors(mut errors)| errors.remove(0))
}

/// `namespace/name=clusterIPs` of each Service.
fn services(manifests: &Manifests) -> Vec<String> {
    let shown = manifests.services.iter().map(|service| {
        let metadata = &service.metadata;
        let ips = service.spec.cluster_ips.join(",");
        format!("{}/{}={ips}", metadata.namespace, metadata.name)
    });
    shown.collect()
}

#[track_caller]
fn check(files: &[(&str, &str)], expected: &[&str]) -> Manifests {
    let manifests = load_files(files).unwrap();
    assert_eq!(services(&manifests), expected);
    manifests
}

#[test]
fn documents_may_be_written_in_many_ways() {
    let a = service("a", "clusterIP: 10.0.0.1");
    let b = service("b", "clusterIP: 10.0.0.2");
    let both = ["default/a=10.0.0.1", "default/b=10.0.0.2"];
    let all = format!("# first\n---\n{a}---\n---\n{b}---\n");
    check(&[("all.yaml", &all)], &both);
    check(&[("1.yml", &a), ("2.yaml", &b)], &both);
    let json = |name: &str, ip: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service",
                "metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"{ip}"}}}}"#
        )
    };
    let (a, b) = (json("a", "10.0.0.1"), json("b", "10.0.0.2"));
    check(&[("all.json", &format!("{a}\n{b}"))], &both);
    check(&[("all.json", &format!("{a}\n---\n{b}"))], &both);
    // As `kubectl get -o json` and `-o yaml` write it: the kind last.
    let list = format!(r#"{{"apiVersion":"v1","items":[{a},{b}],"kind":"List"}}"#);
    check(&[("all.json", &list)], &both);
    check(&[("all.yaml", &list)], &both);
    // As the API server writes it: items without a kind.
    let bare = |one: &str| one.replace(r#""apiVersion":"v1","kind":"Service","#, "");
    let items = format!(r#""items":[{},{}]"#, bare(&a), bare(&b));
    let head = r#""apiVersion":"v1","kind":"ServiceList""#;
    check(&[("all.json", &format!("{{{head},{items}}}"))], &both);
    check(&[("all.json", &format!("{{{items},{head}}}"))], &both);
    check(&[("all.yaml", &format!("{{{items},{head}}}"))], &both);
}

#[test]
fn the_kind_of_an_item_comes_before_that_of_its_list() {
    let service = r#"{"metadata":{"name":"a"},"spec":{"clusterIP":"10.0.0.1"}}"#;
    let other = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}"#;
    let last = r#"{"metadata":{"name":"c"},"kind":"ConfigMap","apiVersion":"v1"}"#;
    let items = format!(r#""items":[{service},{other},{last}]"#);
    let head = r#""apiVersion":"v1","kind":"ServiceList""#;
    for text in [format!("{{{head},{items}}}"), format!("{{{items},{head}}}")] {
        let manifests = check(&[("all.json", &text)], &["default/a=10.0.0.1"]);
        assert_eq!(manifests.ignored, 2, "{text}");
    }
}

#[test]
fn fields_may_come_in_any_order() {
    let text = "spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}\nmetadata:\n  name: a\n  \
                namespace: shop\nkind: Service\napiVersion: v1\n";
    let manifests = check(&[("a.yaml", text)], &["shop/a=10.0.0.1"]);
    assert_eq!(manifests.services[0].spec.ports[0].port, 80);
    let text = "kind: Service\nmetadata: {name: a}\nspec: {clusterIP: 10.0.0.1}\n";
    check(&[("a.yaml", text)], &["default/a=10.0.0.1"]);
}

#[test]
fn other_kinds_are_counted_and_not_read() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: [1]\n---\n\
                apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: b}\nspec: 7\n\
                ---\nspec: {ports: none}\nkind: Ingress\n---\nno: kind\n";
    assert_eq!(check(&[("a.yaml", text)], &[]).ignored, 4);
}

#[test]
fn slices_and_nodes_are_read() {
    let text = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
                metadata: {name: a-1, labels: {kubernetes.io/service-name: a}}\n\
                addressType: IPv4\nendpoints: [{addresses: [10.1.0.1]}]\nports: [{port: 80}]\n---\n\
                apiVersion: v1\nkind: Node\nmetadata: {name: here}\n---\n\
                apiVersion: v1\nkind: Node\nmetadata: {name: there}\n";
    let manifests = check(&[("a.yaml", text)], &[]);
    let slice = &manifests.endpoint_slices[0];
    assert_eq!(slice.metadata.namespace, "default");
    // The API's default for a port without a name.
    assert_eq!(slice.ports[0].name.as_deref(), Some(""));
    assert_eq!(manifests.node.unwrap().metadata.name, "here");
}

#[test]
fn objects_that_kube_proxy_does_not_select_are_left_out() {
    let text = "apiVersion: v1\nkind: Service\n\
                metadata: {name: a, labels: {service.kubernetes.io/service-proxy-name: x}}\n\
                spec: {clusterIP: 10.0.0.1}\n---\n\
                apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
                metadata: {name: b, labels: {service.kubernetes.io/headless: \"\"}}\n---\n\
                apiVersion: v1\nkind: Service\nmetadata: {name: c}\nspec: {clusterIP: None}\n";
    assert!(check(&[("a.yaml", text)], &[]).endpoint_slices.is_empty());
}

#[test]
fn files_are_found_by_name_at_any_depth() {
    let text = |name: &str| service(name, "clusterIP: 10.0.0.1");
    let directory = directory(&[
        ("a.yaml", &text("a")),
        ("sub/deep/b.yml", &text("b")),
        ("sub/notes.txt", "- no manifest"),
        (".hidden.yaml", &text("c")),
        ("..2026/d.yaml", &text("d")),
    ]);
    let at = |name: &str| directory.path().join(name);
    std::os::unix::fs::symlink(at("..2026/d.yaml"), at("linked.yaml")).unwrap();
    std::os::unix::fs::symlink(directory.path(), at("sub/loop")).unwrap();
    let manifests = load(directory.path(), &options(), Validation::Lenient).unwrap();
    let expected = ["a", "b", "d"].map(|name| format!("default/{name}=10.0.0.1"));
    assert_eq!(services(&manifests), expected);
    let manifests = load(&at("sub/deep/b.yml"), &options(), Validation::Lenient).unwrap();
    assert_eq!(services(&manifests), ["default/b=10.0.0.1"]);
}

#[test]
fn errors_name_file_and_line() {
    #[track_caller]
    fn check_error(name: &str, text: &str, line: Option<u64>, reason: &str) {
        let error = load_files(&[(name, text)]).unwrap_err();
        assert!(error.file.ends_with(name), "{error}");
        assert_eq!(error.line, line, "{error}");
        assert!(error.reason.contains(reason), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }

    check_error("a.yaml", "kind: Service\nspec: [1\n", Some(2), "unclosed");
    let json = "{\"kind\":\n \"Service\"\n \"a\": 1}";
    check_error("a.json", json, Some(3), "expected `,` or `}`");
    check_error("a.yaml", "- 1\n", Some(1), "");
    let path = Path::new("/nowhere/at/all");
    let missing = load(path, &options(), Validation::Lenient);
    assert_eq!(missing.unwrap_err().0[0].file, path);
}

#[test]
fn cluster_ips_are_allocated_by_family_and_stable() {
    #[track_caller]
    fn check_families(spec: &str, families: &[&str]) {
        let manifests = load_files(&[("a.yaml", &service("a", spec))]).unwrap();
        let spec = &manifests.services[0].spec;
        assert_eq!(spec.ip_families, families);
        assert_eq!(Some(&spec.cluster_ip), spec.cluster_ips.first());
        for (ip, family) in spec.cluster_ips.iter().zip(families) {
            let ip: std::net::IpAddr = ip.parse().unwrap();
            let range = match *family {
                "IPv4" => CLUSTER_IPS.v4,
                _ => CLUSTER_IPS.v6,
            };
            assert!(range.contains(&ip), "{ip}");
        }
        assert_eq!(spec.cluster_ips.len(), families.len());
    }

    check_families("", &["IPv4"]);
    check_families("clusterIP: ''", &["IPv4"]);
    check_families("ipFamilies: [IPv6]", &["IPv6"]);
    check_families("ipFamilies: [IPv6, IPv4]", &["IPv6", "IPv4"]);
    check_families("ipFamilyPolicy: PreferDualStack", &["IPv4", "IPv6"]);
    check_families(
        "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]",
        &["IPv6", "IPv4"],
    );
    check_families("ipFamilyPolicy: SingleStack", &["IPv4"]);
    check_families("clusterIP: 'fd00:10:96::5'", &["IPv6"]);
    check_families("clusterIPs: [10.96.0.5]", &["IPv4"]);
    check_families(
        "clusterIP: 10.96.0.5, ipFamilies: [IPv4, IPv6]",
        &["IPv4", "IPv6"],
    );
    check(
        &[("a.yaml", &service("a", "type: ExternalName"))],
        &["default/a="],
    );
}

#[test]
fn other_services_do_not_change_cluster_ips() {
    let alone = load_files(&[("a.yaml", &service("a", ""))]).unwrap();
    let with = format!("{}---\n{}", service("0a", ""), service("a", ""));
    let crowded = load_files(&[("a.yaml", &with)]).unwrap();
    assert_eq!(services(&alone)[0], services(&crowded)[1]);
    // Unless another manifest names the address.
    let ip = alone.services[0].spec.cluster_ip.clone();
    let other = service("z", &format!("clusterIP: {ip}"));
    let with = format!("{other}---\n{}", service("a", ""));
    let pushed = load_files(&[("a.yaml", &with)]).unwrap();
    assert_ne!(services(&alone)[0], services(&pushed)[0]);
}
