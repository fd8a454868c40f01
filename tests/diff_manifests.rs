//! `diff` between two states of a repository, in which nothing is that an API server or a
//! controller sets, and its exit code when its output is closed early.

#![allow(clippy::unwrap_used, clippy::panic, reason = "failing is a test's job")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Manifests that [`golden`] compares with, and the expected texts.
fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/diff");
    folder.join(name)
}

#[expect(clippy::disallowed_methods, reason = "this test runs the program")]
fn command(before: &Path, after: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deltaproxy"));
    command
        .args(["diff", "--hostname-override", "node-a", "--from-manifests"])
        .arg(before)
        .arg("--manifests")
        .arg(after)
        .args(more)
        .env("RUST_LOG", "error")
        .env_remove("KUBECTL_EXTERNAL_DIFF");
    command
}

fn diff(before: &Path, after: &Path, more: &[&str], stdout: Stdio) -> Output {
    let mut command = command(before, after, more);
    command
        .stdout(stdout)
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

/// Returns the text and the exit code.
#[track_caller]
fn text(before: &Path, after: &Path, more: &[&str]) -> (String, i32) {
    let output = diff(before, after, more, Stdio::piped());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let heading = format!(
        "live: `{}`\ndesired: `{}`\n",
        before.display(),
        after.display()
    );
    let text = text
        .strip_prefix(&heading)
        .unwrap_or_else(|| panic!("{text}"));
    (text.to_owned(), output.status.code().unwrap())
}

#[test]
fn a_change_in_a_repository_is_reviewed() {
    let (before, after) = (golden("git-before.yaml"), golden("git-after.yaml"));
    let (said, code) = text(&before, &after, &[]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(golden("git.txt"), &said).unwrap();
    }
    assert_eq!(said, fs::read_to_string(golden("git.txt")).unwrap());
    assert_eq!(code, 1);
    let (said, code) = text(&before, &before, &["--strict"]);
    assert!(said.ends_with("\n\nno differences\n"), "{said}");
    assert_eq!(code, 0);
    // The selector of another Service is not that of this one.
    let (said, _) = text(&before, &after, &["web"]);
    assert!(
        said.ends_with("; 1 service port not selected; 2 fields not selected\n"),
        "{said}"
    );
    assert!(!said.contains("publishNotReadyAddresses"), "{said}");
}

#[test]
fn fields_without_effect_on_rules_count_with_strict() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let headless = "kind: Service\napiVersion: v1\nmetadata: {name: db}\nspec: {clusterIP: None}\n";
    fs::write(&before, headless).unwrap();
    fs::write(&after, headless.replace("db", "cache")).unwrap();
    let listed = "\
fields and objects without effect on the rules of their Services
  Service default/cache: added object
  Service default/db: removed object

0 service ports change, 0 added, 0 removed; 2 fields without effect; 0 chains
";
    assert_eq!(text(&before, &after, &[]), (listed.to_owned(), 0));
    assert_eq!(text(&before, &after, &["--strict"]).1, 1);
}

/// Two names of one hash would be allocated in another order; no other Service changes here.
#[test]
fn a_new_service_does_not_change_the_values_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let services = |range: std::ops::Range<u32>| -> String {
        let one = |number| {
            format!(
                "---\nkind: Service\napiVersion: v1\nmetadata: {{name: s{number}}}\n\
                 spec: {{type: LoadBalancer, ports: [{{port: 80}}]}}\n"
            )
        };
        range.map(one).collect()
    };
    fs::write(&before, services(20..40)).unwrap();
    fs::write(&after, services(0..40)).unwrap();
    // Ranges so small that names collide.
    let ranges = [
        "--manifests-node-port-range=30000-30063",
        "--manifests-service-cidr=10.96.0.0/26,fd00:10:96::/122",
        "--manifests-load-balancer-cidr=198.18.0.0/26,2001:2::/122",
    ];
    let (said, _) = text(&before, &after, &ranges);
    let summary = said.lines().last().unwrap();
    assert!(
        summary.starts_with("0 service ports change, 20 added, 0 removed; "),
        "{said}"
    );
}

/// The result is known before anything is printed, so it does not depend on the reader.
#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let (before, after) = (golden("git-before.yaml"), golden("git-after.yaml"));
    for (after, code) in [(&before, 0), (&after, 1)] {
        for format in ["text", "json", "unified"] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let output = diff(&before, after, &["-o", format], writer.into());
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            assert_eq!(output.status.code(), Some(code), "{format}");
        }
    }
}

#[test]
fn a_service_that_never_has_rules_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let service = |name: &str, spec: &str| {
        format!(
            "---\nkind: Service\napiVersion: v1\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
        )
    };
    let web = service("web", "ports: [{port: 80}]");
    fs::write(&before, service("db", "clusterIP: None") + &web).unwrap();
    let alias = service("alias", "type: ExternalName, externalName: a.example");
    fs::write(&after, alias + &web).unwrap();
    for (name, expected) in [
        (
            "db",
            "Service `default/db` has no rules: it is headless, so DNS returns its endpoints",
        ),
        (
            "alias",
            "Service `default/alias` has no rules: it is of type ExternalName, so DNS returns a CNAME",
        ),
    ] {
        let output = diff(&before, &after, &[name], Stdio::piped());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, format!("error: {expected}\n"));
        assert_eq!(output.status.code(), Some(2));
    }
}

/// Writes both sides, and compares them.
fn changed(before: &str, after: &str) -> (String, i32) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("before.yaml"), before).unwrap();
    fs::write(path("after.yaml"), after).unwrap();
    text(&path("before.yaml"), &path("after.yaml"), &[])
}

/// A Service of these fields, and a Deployment with these labels.
fn web(spec: &str, labels: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: shop}}\nspec: {{ports: \
         [{{port: 80}}], {spec}}}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: \
         web, namespace: shop}}\nspec:\n  template:\n    metadata: {{labels: {labels}}}\n"
    )
}

#[test]
fn a_change_of_a_field_that_may_not_change_is_rejected() {
    let labels = "{app: web}";
    for (before, after, expected) in [
        (
            "clusterIP: 10.96.0.1",
            "clusterIP: 10.96.0.2",
            "spec.clusterIP 10.96.0.1 -> 10.96.0.2",
        ),
        (
            "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1']",
            "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::2']",
            "spec.clusterIPs 10.96.0.1,fd00::1 -> 10.96.0.1,fd00::2",
        ),
        (
            "clusterIP: 10.96.0.1",
            "clusterIP: None",
            "spec.clusterIP 10.96.0.1 -> None",
        ),
        (
            "selector: {app: web}",
            "selector: {app: web}, clusterIP: 10.96.0.2",
            "spec.clusterIP none -> 10.96.0.2",
        ),
        (
            "ipFamilies: [IPv4]",
            "ipFamilies: [IPv6]",
            "spec.ipFamilies IPv4 -> IPv6",
        ),
        (
            "type: LoadBalancer",
            "type: LoadBalancer, loadBalancerClass: example.com/a",
            "spec.loadBalancerClass none -> example.com/a",
        ),
    ] {
        let (said, code) = changed(&web(before, labels), &web(after, labels));
        assert_eq!(code, 1, "{said}");
        let title = "rejected by an API server, unless the object has the value already, as these \
                     fields may not change once set";
        let finding = format!("{title}\n  Service shop/web: {expected}\n");
        assert!(said.contains(&finding), "{said}");
        assert!(said.contains("; 1 rejected change;"), "{said}");
    }
    for (before, after) in [
        (
            "type: ExternalName, externalName: a.example",
            "clusterIP: 10.96.0.2",
        ),
        ("clusterIP: 10.96.0.1", "selector: {app: web}"),
        (
            "type: LoadBalancer, loadBalancerClass: example.com/a",
            "type: ClusterIP",
        ),
    ] {
        let (said, _) = changed(&web(before, labels), &web(after, labels));
        assert!(!said.contains("rejected by an API server"), "{said}");
    }
}

#[test]
fn a_selector_without_pods_is_a_difference() {
    let selector = "selector: {app: web}";
    let (old, new) = (
        web(selector, "{app: web, tier: a}"),
        web(selector, "{app: store}"),
    );
    let lost = "Service shop/web: spec.selector matches 1 Pod template -> no Pod template: the \
                Service loses its endpoints\n";
    let (said, code) = changed(&old, &new);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(lost), "{said}");
    assert!(
        said.contains("; 1 selector with other Pods; 0 chains"),
        "{said}"
    );
    let gained = "Service shop/web: spec.selector matches no Pod template -> 1 Pod template: the \
                  Service gains endpoints\n";
    let (said, code) = changed(&new, &old);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(gained), "{said}");
    // Pods are in no manifest, or in none of either side.
    let (said, code) = changed(&new, &new.replace("app: store", "app: shop"));
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("spec.selector"), "{said}");
}

#[test]
fn annotations_of_controllers_are_compared() {
    let of = |annotations: &str| {
        let annotated = format!("name: web, annotations: {{{annotations}}},");
        web("", "{}").replacen("name: web,", &annotated, 1)
    };
    for (before, after, listed) in [
        (
            "service.kubernetes.io/topology-mode: Auto",
            "service.kubernetes.io/topology-mode: Disabled",
            Some("service.kubernetes.io/topology-mode] Auto -> Disabled"),
        ),
        (
            "",
            "service.beta.kubernetes.io/aws-load-balancer-type: nlb",
            Some("service.beta.kubernetes.io/aws-load-balancer-type] none -> nlb"),
        ),
        (
            "metallb.io/address-pool: a",
            "",
            Some("metallb.io/address-pool] a -> none"),
        ),
        ("example.com/note: a", "example.com/note: b", None),
        (
            "kubectl.kubernetes.io/last-applied-configuration: a",
            "kubectl.kubernetes.io/last-applied-configuration: b",
            None,
        ),
    ] {
        let (said, code) = changed(&of(before), &of(after));
        assert_eq!(code, i32::from(listed.is_some()), "{said}");
        let line = listed.map(|text| format!("Service shop/web: metadata.annotations[{text}\n"));
        let is_listed = line.is_none_or(|line| said.contains(&line));
        assert!(
            is_listed && (listed.is_some() || !said.contains("annotations")),
            "{said}"
        );
    }
}

#[test]
fn misspelt_fields_are_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let service =
        "kind: Service\napiVersion: v1\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";
    fs::write(&before, service).unwrap();
    fs::write(
        &after,
        service.replace("spec: {", "spec: {selektor: {a: b}, "),
    )
    .unwrap();
    let (said, code) = text(&before, &after, &["--lenient"]);
    let listed = "unknown fields\n  Service default/web: spec.selektor.a none -> b\n\n";
    assert!(said.starts_with(listed), "{said}");
    assert!(said.ends_with("; 1 unknown field; 0 chains\n"), "{said}");
    assert_eq!(code, 1);
    let output = diff(&before, &after, &[], Stdio::piped());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("unknown field \"spec.selektor\"\n"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

/// Neither is missing: its author meant it to be there.
#[test]
fn an_invalid_service_does_not_disappear() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let service = |name: &str, type_: &str| {
        format!(
            "kind: Service\napiVersion: v1\nmetadata: {{name: {name}}}\nspec: {{type: {type_}, \
             selector: {{a: b}}, ports: [{{port: 80}}]}}\n---\n"
        )
    };
    let slice = |port: &str| {
        format!(
            "kind: EndpointSlice\napiVersion: discovery.k8s.io/v1\naddressType: IPv4\nports: \
             [{{port: {port}}}]\nendpoints: [{{addresses: [10.4.0.7]}}]\nmetadata: {{name: c-1, \
             labels: {{kubernetes.io/service-name: c}}}}\n"
        )
    };
    let whole = |type_: &str, port: &str| {
        let [a, b, c] = [("a", type_), ("b", "ClusterIP"), ("c", "ClusterIP")]
            .map(|(name, type_)| service(name, type_));
        format!("{a}{b}{c}{}", slice(port))
    };
    fs::write(&before, whole("NodePort", "8080")).unwrap();
    fs::write(&after, whole("NodePrt", "http")).unwrap();
    let output = diff(&before, &after, &[], Stdio::piped());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        !said.contains("disappears") && !said.contains("endpoints,"),
        "{said}"
    );
    let summary = "\n\nno differences; 1 service port not compared\n";
    assert!(said.ends_with(summary), "{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("Service `default/a`: spec.type"),
        "{errors}"
    );
    assert!(
        errors.contains("EndpointSlice `default/c-1`: ports[0].port"),
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(2));
    // Others are compared.
    fs::write(
        &after,
        whole("NodePrt", "http").replace("name: b", "name: d"),
    )
    .unwrap();
    let output = diff(&before, &after, &[], Stdio::piped());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("default/b/tcp disappears"), "{said}");
    let summary = "0 service ports change, 1 added, 1 removed; ";
    assert!(
        said.contains(summary) && !said.contains("restore ("),
        "{said}"
    );
}

#[test]
fn services_of_an_invalid_file_do_not_disappear() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| folder.path().join(name));
    let service = |name: &str| {
        format!(
            "kind: Service\napiVersion: v1\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: \
             80}}]}}\n"
        )
    };
    for folder in [&before, &after] {
        fs::create_dir_all(folder.join("x")).unwrap();
        fs::write(folder.join("b.yaml"), service("b")).unwrap();
        fs::write(folder.join("x/a.yaml"), service("a")).unwrap();
    }
    fs::write(after.join("x/a.yaml"), "kind: [\n").unwrap();
    for (one, other) in [(&before, &after), (&after, &before)] {
        let output = diff(one, other, &[], Stdio::piped());
        let said = String::from_utf8_lossy(&output.stdout);
        let summary = "\n\nno differences; 1 service port not compared\n";
        assert!(said.ends_with(summary), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
    fs::remove_file(after.join("x/a.yaml")).unwrap();
    let output = diff(&before, &after, &[], Stdio::piped());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("default/a/tcp disappears"), "{said}");
}

/// A name of an untrusted file must not change what a terminal shows.
#[test]
fn control_characters_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    let service = |name: &str, label: &str| {
        format!(
            "kind: Service\napiVersion: v1\nmetadata: {{name: \"{name}\"}}\n\
             spec: {{ports: [{{port: 80}}], selector: {{app: \"{label}\"}}, \"x\\e[1m\": 1}}\n"
        )
    };
    fs::write(&before, service("a\\e[31mb", "c\\u202ed")).unwrap();
    fs::write(&after, service("a\\e[31mb", "e\\rf")).unwrap();
    let harmful = |text: &str| text.contains(['\u{1b}', '\u{202e}', '\r']);
    for more in [
        &["--lenient"][..],
        &["--lenient", "--unified"],
        &[],
        &["a\u{1b}b\u{202e}"],
        &["--\u{202e}"],
    ] {
        let mut command = command(&before, &after, more);
        let output = command.env("RUST_LOG", "warn").output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(!harmful(&said), "{more:?}: {said:?}");
        assert!(said.contains("\\u{"), "{more:?}: {said}");
    }
}
