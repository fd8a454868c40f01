//! `diff` of live rules against manifests of which a part cannot be used, and of Services whose
//! Pods are unknown: what is unknown is named, and is not shown as a change.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "failing is a test's job"
)]

use std::fs;

use serde_json::{Value, json};

use crate::diff::{BEFORE, Scene, text};

/// Writes each document of the manifests to a file `m/NUMBER.yaml`, edited by `edit`, which returns
/// `None` to leave it out. The dumps of the scene hold the rules of the unedited manifests.
fn divided(edit: impl Fn(&str) -> Option<String>) -> Scene {
    let scene = Scene::new();
    fs::create_dir(scene.path("m")).unwrap();
    for (number, document) in BEFORE.split("---\n").enumerate() {
        let file = scene.path("m").join(format!("{number}.yaml"));
        if let Some(text) = edit(document) {
            fs::write(file, text).unwrap();
        }
    }
    scene
}

/// Compares the dump with the manifests. Returns code, stdout and stderr.
fn compared(scene: &Scene, more: &[&str]) -> (i32, String, String) {
    let args = ["diff", "--from-save", "ipv4", "--manifests", "m"];
    let output = scene.run(&[&args, more].concat());
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}

fn is_of_web(document: &str) -> bool {
    document.contains("name: web")
}

/// Syntax error before the objects, so that the whole text is known.
fn broken(document: &str) -> String {
    format!("x: ]\n---\n{document}")
}

#[test]
fn an_invalid_service_is_not_shown_as_removed_from_live_rules() {
    let scene = divided(|document| {
        // The Service is invalid, and of another one the endpoints.
        let edited = document.replace("type: NodePort", "type: NodePrt");
        Some(edited.replace("port: 53}]\nendpoints", "port: none}]\nendpoints"))
    });
    let (code, said, errors) = compared(&scene, &[]);
    let summary = "\nno differences; 2 service ports not compared\n";
    assert!(said.ends_with(summary), "{said}");
    assert_eq!(code, 2, "{said}");
    let named = "error: not compared, because their manifests have errors: \
                 kube-system/dns:dns/udp, shop/web:http/tcp\n";
    assert!(errors.ends_with(named), "{errors}");
    let (_, said, _) = compared(&scene, &["-o", "json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let port = json!({"family": "IPv4", "namespace": "shop", "port": "http", "protocol": "tcp",
                      "service": "web"});
    assert_eq!(said["notCompared"]["servicePorts"][1], port);
    assert_eq!(said["restores"], json!([]));
    // Of a Service that is selected, everything is known.
    let (code, said, errors) = compared(&scene, &["old"]);
    assert!(said.ends_with("\nno differences\n"), "{said}");
    assert!(!errors.contains("not compared"), "{errors}");
    assert_eq!(code, 2);
}

#[test]
fn a_service_whose_kind_is_misspelt_is_not_shown_as_removed_from_live_rules() {
    let scene = divided(|document| {
        let is_service = is_of_web(document) && document.contains("kind: Service\n");
        let misspelt = document.replace("kind: Service\n", "kind: Servcie\n");
        Some(if is_service {
            misspelt
        } else {
            document.to_owned()
        })
    });
    let (code, said, errors) = compared(&scene, &[]);
    let summary = "\nno differences; 1 service port not compared\n";
    assert!(said.ends_with(summary), "{said}");
    assert!(
        errors.contains("no matches for kind \"Servcie\""),
        "{errors}"
    );
    assert_eq!(code, 2);
}

#[test]
fn an_undecodable_service_is_not_shown_as_removed_from_live_rules() {
    let scene = divided(|document| Some(document.replace("port: 80,", "port: [],")));
    let (code, said, errors) = compared(&scene, &["--lenient"]);
    let summary = "\nno differences; 1 service port not compared\n";
    assert!(said.ends_with(summary), "{said}");
    assert!(errors.contains("errors: shop/web:http/tcp\n"), "{errors}");
    assert_eq!(code, 2);
}

#[test]
fn services_of_an_invalid_file_are_not_shown_as_removed_from_live_rules() {
    // Services and endpoints of two others are removed.
    let scene = divided(|document| match document {
        web if is_of_web(web) => Some(broken(web)),
        old if old.contains("name: old") => None,
        slice if slice.contains("name: dns-1") => None,
        other => Some(other.to_owned()),
    });
    let (code, said, errors) = compared(&scene, &[]);
    assert!(
        said.contains("\nshop/old/tcp disappears (IPv4)\n"),
        "{said}"
    );
    assert!(
        said.contains("\nkube-system/dns:dns/udp changes (IPv4)\n"),
        "{said}"
    );
    assert!(
        !said.contains("shop/web") && !said.contains("restore"),
        "{said}"
    );
    let summary = "\n1 service port changes, 0 added, 1 removed; ";
    assert!(said.contains(summary), "{said}");
    assert!(said.ends_with("; 1 service port not compared\n"), "{said}");
    assert!(errors.ends_with("errors: shop/web:http/tcp\n"), "{errors}");
    assert_eq!(code, 2);
}

#[test]
fn endpoints_of_an_invalid_file_are_not_shown_as_removed_from_live_rules() {
    let is_slice = |document: &str| document.contains("name: web-1");
    let scene = divided(|document| match document {
        slice if is_slice(slice) => Some(broken(slice)),
        other => Some(other.to_owned()),
    });
    let (_, said, _) = compared(&scene, &[]);
    let summary = "\nno differences; 1 service port not compared\n";
    assert!(said.ends_with(summary), "{said}");
    // A file without Services has no part in it.
    let deployment = "kind: Deployment\nmetadata: {name: web}\nx: ]\n---\nkind: Pod\n";
    let scene = divided(|document| match document {
        slice if is_slice(slice) => Some(deployment.to_owned()),
        other => Some(other.to_owned()),
    });
    let (_, said, _) = compared(&scene, &[]);
    assert!(
        said.contains("\nshop/web:http/tcp changes (IPv4)\n"),
        "{said}"
    );
}

/// A text that ends too early, or that is a template, may have had any Service.
#[test]
fn services_that_an_invalid_file_may_have_are_not_shown_as_removed_from_live_rules() {
    for unknown in ["kind: [\n", "name: {{ .Values.name }}\n---\nkind: Pod\n"] {
        let scene = divided(|document| match document {
            web if is_of_web(web) => Some(unknown.to_owned()),
            other => Some(other.to_owned()),
        });
        let (code, said, errors) = compared(&scene, &[]);
        let summary = "\nno differences; 1 service port not compared\n";
        assert!(said.ends_with(summary), "{unknown}: {said}");
        assert!(errors.ends_with("errors: shop/web:http/tcp\n"), "{errors}");
        assert_eq!(code, 2);
    }
}

/// The daemon, and `--lenient`, use Services without their patches.
#[test]
fn a_patched_service_is_compared_only_if_patches_are_ignored() {
    let scene = divided(|document| Some(document.replace("nodePort: 30080", "nodePort: 30081")));
    let patch = "kind: Service\napiVersion: v1\nmetadata: {name: web, namespace: shop}\n";
    fs::write(scene.path("m/patch.yaml"), patch).unwrap();
    let kustomization = "patches: [{path: patch.yaml}]\n";
    fs::write(scene.path("m/kustomization.yaml"), kustomization).unwrap();
    let (code, said, errors) = compared(&scene, &[]);
    let summary = "\nno differences; 1 service port not compared\n";
    assert!(said.ends_with(summary), "{said}");
    assert!(errors.contains("is a patch of"), "{errors}");
    assert_eq!(code, 2);
    let (code, said, errors) = compared(&scene, &["--lenient"]);
    let changes = "\nshop/web:http/tcp changes (IPv4)\n";
    assert!(said.contains(changes), "{said}");
    assert_eq!((code, errors.as_str()), (1, ""));
}

#[test]
fn a_unified_diff_leaves_out_what_is_not_compared() {
    let scene = divided(|document| match document {
        web if web.contains("name: web,") => Some(web.replace("type: NodePort", "type: NodePrt")),
        // A rule that both sides have in part.
        slice if slice.contains("name: dns-1") => Some(slice.replace("10.4.2.9", "10.4.2.10")),
        other => Some(other.to_owned()),
    });
    let (code, said, errors) = compared(&scene, &["--unified"]);
    assert!(said.contains("kube-system/dns:dns"), "{said}");
    assert!(!said.contains("shop/web"), "{said}");
    assert!(errors.ends_with("errors: shop/web:http/tcp\n"), "{errors}");
    assert_eq!(code, 2);
    // So does the one of two sets of manifests, whichever side the Service is on.
    for sides in [["before.yaml", "m"], ["m", "before.yaml"]] {
        let [before, after] = sides;
        let args = ["diff", "--from-manifests", before, "--manifests", after];
        let output = scene.run(&[&args[..], &["--unified"]].concat());
        let said = text(&output.stdout);
        assert!(said.contains("kube-system/dns:dns"), "{said}");
        assert!(!said.contains("shop/web"), "{said}");
    }
}

#[test]
fn a_unified_diff_leaves_out_unreadable_rules() {
    let scene = divided(|document| Some(document.to_owned()));
    let dump = fs::read_to_string(scene.path("ipv4")).unwrap();
    let rule = |open, close| format!("--comment {open}shop/web:http cluster IP{close} ");
    let edited = dump.replace(&rule('"', '"'), &rule('\u{201c}', '\u{201d}'));
    assert_ne!(edited, dump);
    fs::write(scene.path("ipv4"), edited).unwrap();
    let (code, said, errors) = compared(&scene, &["--unified"]);
    assert_eq!(said, "");
    assert!(
        errors.contains("because of them: shop/web:http/tcp"),
        "{errors}"
    );
    assert_eq!(code, 2);
}

#[test]
fn a_node_without_a_proxy_is_named_before_the_manifests_are_read() {
    let scene = divided(|document| (!document.contains("Slice")).then(|| document.to_owned()));
    let empty = "# Generated by iptables-save v1.8.9\n*nat\nCOMMIT\n*filter\nCOMMIT\n";
    fs::write(scene.path("ipv4"), empty).unwrap();
    fs::write(scene.path("m/x.yaml"), "kind: [\n").unwrap();
    for format in ["text", "json", "unified"] {
        let args = [
            "diff",
            "--from-save",
            "ipv4",
            "--manifests",
            "m",
            "-o",
            format,
        ];
        let output = scene
            .command(&args)
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        let errors = text(&output.stderr);
        let first = "warning: `ipv4`: no rules of a kube-proxy in iptables mode\nhint: ";
        assert!(errors.starts_with(first), "{format}: {errors}");
        assert_eq!(errors.matches("no rules of a kube-proxy").count(), 1);
        assert!(errors.contains("warning: no EndpointSlices"), "{errors}");
    }
}

/// Service with a selector and a named target port.
fn service(name: &str, target: &str) -> String {
    format!(
        "kind: Service\napiVersion: v1\nmetadata: {{name: {name}}}\nspec: {{selector: {{app: \
         {name}}}, ports: [{{port: 80, targetPort: {target}}}]}}\n"
    )
}

/// Deployment with a named container port.
fn deployment(name: &str, port: &str) -> String {
    format!(
        "kind: Deployment\napiVersion: apps/v1\nmetadata: {{name: {name}}}\nspec: {{template: \
         {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{ports: [{{name: {port}, \
         containerPort: 8080}}]}}]}}}}}}\n"
    )
}

/// Compares the files of two states. Returns stdout.
fn compared_states(before: &[(&str, String)], after: &[(&str, String)]) -> String {
    let scene = Scene::new();
    for (state, files) in [("before", before), ("after", after)] {
        fs::create_dir(scene.path(state)).unwrap();
        for (name, text) in files {
            fs::write(scene.path(state).join(name), text).unwrap();
        }
    }
    let args = ["diff", "--from-manifests", "before", "--manifests", "after"];
    text(&scene.run(&args).stdout)
}

#[test]
fn a_pod_template_in_an_invalid_file_does_not_change_its_service() {
    let service = ("service.yaml", service("web", "http"));
    let valid = ("web.yaml", deployment("web", "http"));
    let invalid = ("web.yaml", broken(&valid.1));
    let other_side = "  numbers of named ports from the other manifests, as the file with the Pod \
                      template has an error: default/web http=8080\n";
    for invalid_first in [false, true] {
        let states = [&valid, &invalid].map(|file| [service.clone(), file.clone()]);
        let [one, other] = &states;
        let said = if invalid_first {
            compared_states(other, one)
        } else {
            compared_states(one, other)
        };
        assert!(said.contains(other_side), "{said}");
        assert!(said.ends_with("\nno differences\n"), "{said}");
    }
    // Neither side has the number.
    let both = [service.clone(), invalid.clone()];
    let said = compared_states(&both, &both);
    let unknown = "  numbers of named ports, as the Pod template may be in a file with an error: \
                   default/web http=51179\n";
    assert!(said.contains(unknown), "{said}");
    // The file is new on the side that cannot read it.
    let moved = [service.clone(), ("moved.yaml", invalid.1.clone())];
    let said = compared_states(&[service.clone(), valid.clone()], &moved);
    assert!(!said.contains("loses its endpoints"), "{said}");
    assert!(said.contains(unknown), "{said}");
    // In a valid file, it is a difference.
    let moved = [service.clone(), ("web.yaml", deployment("other", "http"))];
    let said = compared_states(&[service.clone(), valid.clone()], &moved);
    assert!(said.contains("loses its endpoints"), "{said}");
}

#[test]
fn a_target_port_that_no_container_has_is_named() {
    let files = [
        ("service.yaml", service("web", "https")),
        ("web.yaml", deployment("web", "http")),
        ("no-pods.yaml", service("no-pods", "https")),
    ];
    let said = compared_states(&files, &files);
    let lacking = "  numbers of named ports that no container of the matching Pod templates has, so \
                   that the proxy would have no endpoints: default/web https=";
    let absent = "  numbers of named ports of Services whose selector matches no Pod template: \
                  default/no-pods https=";
    for line in [lacking, absent] {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
    assert_eq!(said.matches("default/web https=").count(), 1, "{said}");
}

/// Each Service is named: an assumed number hides a mistake.
#[test]
fn every_named_port_without_a_number_is_named() {
    let services: Vec<String> = (0..6).map(|n| service(&format!("s{n}"), "http")).collect();
    let files = [("services.yaml", services.join("---\n"))];
    let said = compared_states(&files, &files);
    for number in 0..6 {
        let name = format!("default/s{number} http=");
        assert_eq!(said.matches(&name).count(), 1, "{name}: {said}");
    }
}
