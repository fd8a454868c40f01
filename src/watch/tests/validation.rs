//! Manifests with fields that cannot be used, and files that cannot be used.

use super::manifests::{directory, options};
use crate::cases::cases;
use crate::watch::manifests::{Manifests, Validation, load};

const WEB: &str = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  \
                   - port: 80\n";

/// As commands read manifests without `--lenient`.
const STRICT: Validation = Validation::Strict;

/// Loads these files. Returns errors as `FILE:LINE: REASON`, and calls their directory `DIRECTORY`,
/// which files of errors are without.
fn load_as(validation: Validation, files: &[(&str, &str)]) -> (Manifests, Vec<String>) {
    let directory = directory(files);
    let path = directory.path().display().to_string();
    let shown = |text: String| text.replace(&path, "DIRECTORY");
    let mut manifests = load(directory.path(), &options(), validation).unwrap();
    let errors = manifests.errors.iter().map(|error| {
        let line = error.line.map(|line| line.to_string()).unwrap_or_default();
        let (file, reason) = (error.file.display(), &error.reason);
        let shown = shown(format!("{file}:{line}: {reason}"));
        shown.replace("DIRECTORY/", "")
    });
    let errors = errors.collect();
    manifests.notes = manifests.notes.into_iter().map(shown).collect();
    (manifests, errors)
}

fn names(manifests: &Manifests) -> Vec<&str> {
    let services = manifests.services.iter();
    services.map(|one| one.metadata.name.as_str()).collect()
}

/// Checks the errors of `a.yaml`, whose objects are all rejected.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let (manifests, errors) = load_as(STRICT, &[("a.yaml", text)]);
    assert_eq!(errors, expected, "{text}");
    assert_eq!(names(&manifests), [""; 0], "{text}");
    // The daemon uses what it can.
    let (_, errors) = load_as(Validation::Lenient, &[("a.yaml", text)]);
    assert_eq!(errors, [""; 0], "{text}");
}

/// Each line is the spec of a Service, on line 4 of its file; it has the errors below it.
#[track_caller]
fn check_specs(table: &str) {
    for (spec, errors) in cases(table) {
        let start = "a.yaml:4: Service `default/web`: ";
        let errors = errors.lines().map(|error| [start, error].concat());
        let errors: Vec<String> = errors.collect();
        let errors: Vec<&str> = errors.iter().map(String::as_str).collect();
        let header = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n";
        check(&format!("{header}spec: {spec}\n"), &errors);
    }
}

#[test]
fn errors_name_file_line_object_and_field() {
    check(
        "# comment\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: shop\n\
         spec:\n  type: LoadBalnacer\n  selektor:\n    app: web\n  ports:\n  - name: a\n    \
         port: 80\n  - name: b\n    port: 81\n    protocol: tcp\n",
        &[
            "a.yaml:10: Service `shop/web`: unknown field \"spec.selektor\" (did you mean \"selector\"?)",
            "a.yaml:9: Service `shop/web`: spec.type: Unsupported value: \"LoadBalnacer\": \
             supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
            "a.yaml:17: Service `shop/web`: spec.ports[1].protocol: Unsupported value: \"tcp\": \
             supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ],
    );
}

#[test]
fn values_of_services_are_checked() {
    check_specs(
        r#"
{ports: [{port: 0}, {port: 80, targetPort: 70000, nodePort: -1}], healthCheckNodePort: 70000}
    spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
    spec.ports[1].nodePort: Invalid value: -1: must be between 1 and 65535, inclusive
    spec.ports[1].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive
    spec.healthCheckNodePort: Invalid value: 70000: must be between 1 and 65535, inclusive
{ports: [{port: 80}], clusterIP: 10.0.0.256, externalIPs: [10.0.0.1, x], ipFamilies: [v4]}
    spec.ipFamilies[0]: Unsupported value: "v4": supported values: "IPv4", "IPv6"
    spec.clusterIP: Invalid value: "10.0.0.256": must be a valid IP address
    spec.externalIPs[1]: Invalid value: "x": must be a valid IP address
{ports: [{port: 80}], loadBalancerSourceRanges: [10.0.0.0/8, ' 10.1.0.0/16 ', a]}
    spec.loadBalancerSourceRanges[2]: Invalid value: "a": must be a valid CIDR value
{ports: [{port: 80}], internalTrafficPolicy: local}
    spec.internalTrafficPolicy: Unsupported value: "local": supported values: "Cluster", "Local"
"#,
    );
}

#[test]
fn the_first_value_of_a_wrong_type_is_named() {
    check_specs(
        r#"
{ports: [{port: eighty}], selektor: {}}
    spec.ports[0].port: invalid type: string "eighty", expected i32
{ports: [{port: 81}, 7]}
    spec.ports[1]: must be an object, got 7
{externalIPs: 10.0.0.1}
    spec.externalIPs: invalid type: string "10.0.0.1", expected a sequence
{ports: [{port: 80, targetPort: [80]}]}
    spec.ports[0].targetPort: invalid type: sequence, expected IntOrString
"#,
    );
}

#[test]
fn a_missing_field_and_a_patch_are_named_once() {
    for (field, expected) in [
        (
            "status: {conditions: [{}]}",
            "status.conditions[0]: missing field ",
        ),
        (
            "spec: {$patch: delete}",
            "unknown field \"spec.$patch\": this is a patch",
        ),
    ] {
        let text = format!("apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n{field}\n");
        let (_, errors) = load_as(STRICT, &[("a.yaml", &text)]);
        let expected = format!("a.yaml:4: Service `default/web`: {expected}");
        assert!(
            errors.len() == 1 && errors[0].starts_with(&expected),
            "{errors:?}"
        );
    }
}

/// An API server rejects these, and says so in a dry run; each has rules all the same.
#[test]
fn other_rules_of_an_api_server_are_not_repeated() {
    for spec in [
        "{}",
        "{ports: [{port: 80}, {port: 81}]}",
        "{ports: [{port: 80, nodePort: 30000}]}",
        "{type: NodePort, ports: [{port: 80, nodePort: 80}]}",
        "{ports: [{port: 80}], externalTrafficPolicy: Local}",
    ] {
        let text =
            format!("apiVersion: v1\nkind: Service\nmetadata: {{name: Web}}\nspec: {spec}\n");
        let (manifests, errors) = load_as(STRICT, &[("a.yaml", &text)]);
        assert_eq!(errors, [""; 0], "{spec}");
        assert_eq!(names(&manifests), ["Web"], "{spec}");
    }
}

#[test]
fn values_of_slices_are_checked() {
    check(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1}\n\
         addressType: IPv4\nendpoints:\n- addresses: ['fd00::1']\nports:\n\
         - port: 0\n  protocol: tcp\n",
        &[
            "a.yaml:6: EndpointSlice `default/web-1`: endpoints[0].addresses[0]: Invalid value: \
             \"fd00::1\": must be a valid IPv4 address",
            "a.yaml:9: EndpointSlice `default/web-1`: ports[0].protocol: Unsupported value: \
             \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            "a.yaml:8: EndpointSlice `default/web-1`: ports[0].port: Invalid value: 0: must be \
             between 1 and 65535, inclusive",
        ],
    );
    check(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\n",
        &["a.yaml:1: EndpointSlice `default/a`: addressType: Required value"],
    );
}

#[test]
fn kinds_that_no_api_server_has_are_named() {
    check(
        "apiVersion: v1\nkind: Servcie\nmetadata: {name: web}\n---\n\
         apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nmetadata: {name: web-1}\n---\n\
         apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: other}\n",
        &[
            "a.yaml:2: Servcie `default/web`: kind: no matches for kind \"Servcie\" in version \
             \"v1\"",
            "a.yaml:6: EndpointSlice `default/web-1`: kind: no matches for kind \"EndpointSlice\" \
             in version \"discovery.k8s.io/v1beta1\"",
        ],
    );
}

#[test]
fn lines_are_found_in_lists_and_json() {
    let item = |port: &str| {
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"Service\",\n\"metadata\": {{\"name\": \"a\"}},\n\
             \"spec\": {{\"ports\": [\n{{\"port\": {port}}}]}}}}"
        )
    };
    let expected = |line: u64| {
        format!(
            "{line}: Service `default/a`: spec.ports[0].port: invalid type: string \"x\", expected i32"
        )
    };
    let bad = item("\"x\"");
    let list = format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{bad}]}}\n");
    for (name, text, line) in [
        ("a.json", list.clone(), 5),
        ("a.yaml", list, 5),
        // Documents in a row, the second one bad.
        ("a.json", format!("{{\"kind\": \"List\"}}\n\n{bad}\n"), 6),
        ("a.yaml", format!("kind: List\n---\n{bad}\n"), 6),
    ] {
        let (_, errors) = load_as(STRICT, &[(name, &text)]);
        assert_eq!(errors, [format!("{name}:{}", expected(line))], "{text}");
    }
}

#[test]
fn two_objects_of_one_name_are_an_error_and_the_later_one_counts() {
    let first = WEB.replace("80", "70");
    let twice = format!("{first}---\n{WEB}");
    let files = [("a.yaml", &*twice), ("b.yaml", WEB)];
    let (manifests, errors) = load_as(STRICT, &files);
    assert_eq!(
        errors,
        [
            "a.yaml:: Service `default/web` replaces the one in `a.yaml`",
            "b.yaml:: Service `default/web` replaces the one in `a.yaml`",
        ]
    );
    assert_eq!(names(&manifests), ["web"]);
    assert_eq!(manifests.services[0].spec.ports[0].port, 80);
    // Each is said once.
    assert!(manifests.notes.is_empty(), "{:?}", manifests.notes);
    let (lenient, errors) = load_as(Validation::Lenient, &files);
    assert_eq!((errors.len(), lenient.notes.len()), (0, 2));
    let note = &lenient.notes[1];
    let expected = "b.yaml`: Service `default/web` replaces the one in `";
    assert!(note.contains(expected), "{note}");
}

#[test]
fn files_of_other_tools_are_named() {
    for (text, expected) in [
        ("metadata:\n  name: {{ .Values.name }}\n", "Helm template"),
        (
            "{{- if .Values.on }}\nkind: Service\n{{- end }}\n",
            "Helm template",
        ),
        (
            "- op: replace\n  path: /spec/type\n  value: NodePort\n",
            "JSON patch",
        ),
        ("[{\"op\": \"remove\", \"path\": \"/spec\"}]", "JSON patch"),
        ("[{\"kind\": \"Service\"}]", "is a list;"),
        ("*nat\n", "iptables-save"),
        (
            "kind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80, targetPort: \"{{ \
             .Values.port }}\"}]}\n",
            "spec.ports[0].targetPort: is a Helm template",
        ),
    ] {
        let (manifests, _) = load_as(STRICT, &[("a.yaml", text), ("b.yaml", WEB)]);
        let reason = &manifests.errors[0].reason;
        assert!(reason.contains(expected), "{reason}");
        assert!(!reason.contains('\n'), "{reason}");
    }
}

#[test]
fn the_first_of_several_cluster_ips_decides_on_headless() {
    let text = format!("{WEB}  clusterIPs: [None]\n");
    for validation in [STRICT, Validation::Lenient] {
        let (manifests, _) = load_as(validation, &[("a.yaml", &text)]);
        assert_eq!((names(&manifests), manifests.headless.len()), (vec![], 1));
    }
}

#[test]
fn fields_without_effect_are_noted_if_lenient() {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  type: \
                LoadBalnacer\n  selektor: {a: b}\n  ports: [{port: 80, protocol: tcp}]\n";
    let (manifests, _) = load_as(Validation::Lenient, &[("a.yaml", text)]);
    let place = "Service `default/web` in `DIRECTORY/a.yaml`: ";
    assert_eq!(
        manifests.notes,
        [
            "unknown field \"spec.selektor\" (did you mean \"selector\"?)",
            "spec.type: Unsupported value: \"LoadBalnacer\": supported values: \"ClusterIP\", \
             \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ]
        .map(|problem| format!("{place}{problem}; the field is ignored"))
    );
    assert_eq!(
        (names(&manifests), manifests.ignored_fields),
        (vec!["web"], 2)
    );
}

#[test]
fn kustomizations_are_not_rendered() {
    for name in ["kustomization.yaml", "kustomization.yml", "Kustomization"] {
        let files = [(name, "resources: [a.yaml]\n"), ("a.yaml", WEB)];
        let problem =
            "is a kustomization, which is not rendered: run `kubectl kustomize DIRECTORY`";
        for validation in [STRICT, Validation::Lenient] {
            let (manifests, errors) = load_as(validation, &files);
            assert_eq!(errors, [format!("{name}:: {problem}")]);
            assert_eq!((names(&manifests), manifests.notes.len()), (vec!["web"], 0));
        }
    }
}

#[test]
fn input_without_effect_is_noted() {
    let endpoints = |name: &str| {
        format!("apiVersion: v1\nkind: Endpoints\nmetadata: {{name: {name}}}\nsubsets: []\n---\n")
    };
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
                 metadata: {name: b-1, labels: {kubernetes.io/service-name: b}}\n---\n";
    let text = endpoints("web") + &endpoints("b") + slice + WEB;
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
    let files = [("a.yaml", &*text), ("deployment.yaml", deployment)];
    let (manifests, errors) = load_as(STRICT, &files);
    assert_eq!(errors, [""; 0]);
    assert_eq!(
        manifests.notes,
        ["2 Endpoints are ignored: rules come from EndpointSlices"]
    );
}

#[test]
fn services_that_are_not_served_are_counted() {
    let headless = "kind: Service\nmetadata: {name: a}\nspec: {clusterIP: None}\n---\n";
    let other = "kind: Service\nmetadata: {name: b, labels: \
                 {service.kubernetes.io/service-proxy-name: x}}\nspec: {ports: [{port: 80}]}\n";
    let secret = "kind: Secret\n---\n";
    let label = "with the label service.kubernetes.io/service-proxy-name";
    for (text, expected) in [
        (secret.to_owned(), "no Services found; 1".to_owned()),
        (
            format!("{headless}{other}"),
            format!("no Services that kube-proxy serves: 1 headless, 1 {label}; 0"),
        ),
        (
            format!("{secret}{headless}"),
            "no Services that kube-proxy serves: 1 headless; 1".to_owned(),
        ),
    ] {
        let (manifests, _) = load_as(STRICT, &[("a.yaml", &text)]);
        let ignored = "objects of other kinds are ignored";
        assert_eq!(manifests.notes, [format!("{expected} {ignored}")]);
    }
}

#[test]
fn items_of_a_list_may_be_without_version_and_kind() {
    for header in [
        "spec: {ports: [{port: 80}]}",
        "kind: null",
        "apiVersion: null",
    ] {
        let item = format!("- {header}\n  metadata: {{name: web}}\n");
        let text = format!("apiVersion: v1\nkind: ServiceList\nitems:\n{item}");
        let (manifests, errors) = load_as(STRICT, &[("a.yaml", &text)]);
        assert_eq!(errors, [""; 0], "{header}");
        assert_eq!(names(&manifests), ["web"], "{header}");
    }
}
