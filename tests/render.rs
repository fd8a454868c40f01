//! `render` as its users meet it, and whether the kernel takes what it prints.

use std::fs;

use crate::support::daemon::Backend;
use crate::support::needs;
use crate::support::netns::Netns;
use crate::support::program::{self, Ran};
use crate::support::rules::{Family, restore, saved, try_restore};
use tempfile::TempDir;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/examples");

/// One endpoint of Service `shop/admin` moves.
fn changed_examples() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(EXAMPLES).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap();
        fs::write(
            folder.path().join(name),
            text.replace("10.4.0.31", "10.4.0.33"),
        )
        .unwrap();
    }
    folder
}

fn render(args: &[&str]) -> Ran {
    program::run(&[&["render", "--hostname-override=node1"], args].concat())
}

#[track_caller]
fn rendered(args: &[&str]) -> String {
    render(args).success()
}

#[test]
fn assumed_load_balancer_ips_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n\
                   spec: {type: LoadBalancer, ports: [{port: 80}]}\n";
    fs::write(folder.path().join("a.yaml"), service).unwrap();
    let folder = folder.path().to_str().unwrap();
    let output = render(&["--manifests", folder]);
    let said = &output.stderr;
    let note = "assumed, as the manifests do not have them: load balancer IPs from \
                198.18.0.0/16,2001:2::/64: shop/web 198.18.42.111\n";
    assert!(said.contains(note), "{said}");
    let payload = &output.stdout;
    assert!(payload.contains(" -d 198.18.42.111 "), "{payload}");
}

#[test]
fn both_kernels_take_what_is_printed() {
    needs!(Kernel);
    let later = changed_examples();
    let later = later.path().to_str().unwrap();
    let before = ["--manifests", EXAMPLES];
    let change = ["--since", EXAMPLES, "--manifests", later];
    for backend in [Backend::Nft, Backend::Legacy] {
        let netns = Netns::new("render");
        let (noflush, test) = (["--noflush"], ["--noflush", "--test"]);
        restore(&netns, backend, Family::V4, &test, &rendered(&before));
        restore(&netns, backend, Family::V4, &noflush, &rendered(&before));
        for more in [&[][..], &["--partial-restore=kep-3453"]] {
            let payload = rendered(&[&change[..], more].concat());
            restore(&netns, backend, Family::V4, &test, &payload);
        }
        restore(&netns, backend, Family::V4, &noflush, &rendered(&change));
        let partial = chains(&saved(&netns, backend, Family::V4));

        let fresh = Netns::new("fresh");
        let all = rendered(&["--manifests", later]);
        restore(&fresh, backend, Family::V4, &noflush, &all);
        assert_eq!(partial, chains(&saved(&fresh, backend, Family::V4)));

        // What was cut down is refused, before it can do any harm.
        let part = rendered(&["admin", "--manifests", EXAMPLES]);
        let restored = try_restore(&fresh, backend, Family::V4, &noflush, &part);
        assert!(restored.is_err(), "{part}");
    }
}

/// The lines of a save that are about rules, sorted: a partial restore puts new rules of shared
/// chains on top.
fn chains(saved: &str) -> Vec<String> {
    let rules = saved.lines().filter(|line| line.starts_with("-A"));
    let mut lines: Vec<String> = rules.map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_partial_payload_holds_the_change_and_nothing_else() {
    let later = changed_examples();
    let later = later.path().to_str().unwrap();
    let payload = rendered(&["--since", EXAMPLES, "--manifests", later]);
    assert!(
        payload.contains("--to-destination 10.4.0.33:8080"),
        "{payload}"
    );
    assert!(payload.contains("-X KUBE-SEP-"), "{payload}");
    assert!(!payload.contains("checkout"), "{payload}");
    assert_eq!(
        rendered(&["--since", EXAMPLES, "--manifests", EXAMPLES]),
        ""
    );
    let kep = rendered(&[
        "--since",
        EXAMPLES,
        "--manifests",
        later,
        "--partial-restore=kep-3453",
    ]);
    assert!(kep.contains(":KUBE-SERVICES") && kep.len() > payload.len());
}

#[test]
fn services_can_be_chosen() {
    let text = rendered(&["shop/admin", "--manifests", EXAMPLES]);
    assert!(text.contains("shop/admin:http cluster IP"), "{text}");
    assert!(
        !text.contains("shop/public") && !text.contains("COMMIT"),
        "{text}"
    );

    let output = render(&["shop/nobody", "--manifests", EXAMPLES]);
    let said = &output.stderr;
    assert_eq!(output.code, Some(1), "{said}");
    assert!(said.contains("no Service `shop/nobody`"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_help_says_what_a_name_makes_of_a_payload() {
    let help = rendered(&["--help"]);
    let words: Vec<&str> = help.split_whitespace().collect();
    let excerpt = "shop/dns:53/udp; prints an excerpt that iptables-restore rejects";
    assert!(words.join(" ").contains(excerpt), "{help}");
}

#[test]
fn stdin_is_read_once() {
    let output = render(&["--since", "-", "--manifests", "-"]);
    let said = &output.stderr;
    assert_eq!(output.code, Some(64), "{said}");
    let expected = "--since: stdin can be read only once, and --manifests reads it";
    assert!(said.contains(expected), "{said}");
}
