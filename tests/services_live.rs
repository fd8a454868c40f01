//! `deltaproxy services` of a kernel that has two sets of rules, of which programs see one.

use std::io::Write;
use std::process::Stdio;

use crate::support::needs;
use crate::support::netns::Netns;

const RULES: &str = "*nat\n:KUBE-SERVICES - [0:0]\n-A OUTPUT -j KUBE-SERVICES\nCOMMIT\n";

fn restore(node: &Netns, backend: &str, rules: &str) {
    let mut restore = node.command(format!("iptables-{backend}-restore"));
    let mut restore = restore.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = restore.stdin.take().unwrap();
    stdin.write_all(rules.as_bytes()).unwrap();
    drop(stdin);
    assert!(restore.wait().unwrap().success());
}

/// Rules of one backend, and what is said of the other.
#[track_caller]
fn check(has: &str, shown: &str, expected: Option<&str>) {
    let node = Netns::new("services");
    restore(&node, has, RULES);
    let mut services = node.command(env!("CARGO_BIN_EXE_deltaproxy"));
    let services = services.args(["services", "--iptables-backend", shown]);
    let output = services.env_remove("RUST_LOG").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.contains("warning: "), expected.is_some(), "{said}");
    assert!(said.contains(expected.unwrap_or_default()), "{said}");
}

#[test]
fn rules_of_the_other_backend_are_pointed_out() {
    needs!(Kernel);
    check(
        "legacy",
        "nft",
        Some("backend legacy has: use --iptables-backend=legacy"),
    );
    check(
        "nft",
        "legacy",
        Some("backend nft has: use --iptables-backend=nft"),
    );
    check("nft", "nft", None);
    check("legacy", "legacy", None);
}

/// Rules as another program may write them: with characters that a terminal acts on.
const HOSTILE: &str = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n\
    -A OUTPUT -j KUBE-SERVICES\n\
    -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/w\u{1b}[31meb:http cluster IP\" \
    -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA\nCOMMIT\n\
    *filter\n:E\u{1b}[2JIL - [0:0]\n-A OUTPUT -j E\u{1b}[2JIL\n\
    -A E\u{1b}[2JIL -d 10.96.0.10/32 -m comment --comment \"a\u{1b}]0;title\u{7}\u{202e}b\" -j DROP\nCOMMIT\n";

#[test]
fn rules_of_other_programs_are_harmless_to_a_terminal() {
    needs!(Kernel);
    for backend in ["nft", "legacy"] {
        let node = Netns::new("services");
        restore(&node, backend, HOSTILE);
        let commands: [&[&str]; 6] = [
            &["services", "-o", "wide"],
            &["services", "-o", "json"],
            &["services", "--counters", "-o", "wide"],
            &["explain", "10.96.0.10:80", "--verbose"],
            &["explain", "10.96.0.10:80", "-o", "json"],
            &[
                "diff",
                "--manifests",
                "deploy/examples",
                "--hostname-override",
                "node1",
            ],
        ];
        let mut all = String::new();
        for args in commands {
            let mut command = node.command(env!("CARGO_BIN_EXE_deltaproxy"));
            // As on a terminal: elsewhere, escape sequences are taken out of stdout.
            let common = ["--color", "always", "--iptables-backend", backend];
            let command = command.args(args).args(common);
            let output = command.env_remove("RUST_LOG").output().unwrap();
            for bytes in [&output.stdout, &output.stderr] {
                let text = String::from_utf8_lossy(bytes);
                for part in ["\u{1b}[2J", "w\u{1b}[31m", "\u{1b}]", "\u{7}", "\u{202e}"] {
                    assert!(!text.contains(part), "{args:?}: {text:?}");
                }
                all.push_str(&text);
            }
        }
        // They are shown, in another form.
        for part in ["u{1b}[31m", "u{1b}[2JIL", "]0;title"] {
            assert!(all.contains(part), "{backend}: {part}: {all}");
        }
    }
}
