//! `deltaproxy services` of a kernel that has two sets of rules, of which programs see one.

use crate::support::daemon::Backend;
use crate::support::needs;
use crate::support::netns::Netns;
use crate::support::program::run_in;
use crate::support::rules::{Family, restore};

const RULES: &str = "*nat\n:KUBE-SERVICES - [0:0]\n-A OUTPUT -j KUBE-SERVICES\nCOMMIT\n";

/// Rules of one backend, and what is said of the other.
#[track_caller]
fn check(has: Backend, shown: Backend, expected: Option<&str>) {
    let node = Netns::new("services");
    restore(&node, has, Family::V4, &[], RULES);
    let services = run_in(&node, &["services", "--iptables-backend", shown.name()]);
    assert!(services.is_success(), "{services:#?}");
    let said = &services.stderr;
    assert_eq!(said.contains("warning: "), expected.is_some(), "{said}");
    assert!(said.contains(expected.unwrap_or_default()), "{said}");
}

#[test]
fn rules_of_the_other_backend_are_pointed_out() {
    needs!(Kernel);
    let hint = "backend legacy has: use --iptables-backend=legacy";
    check(Backend::Legacy, Backend::Nft, Some(hint));
    let hint = "backend nft has: use --iptables-backend=nft";
    check(Backend::Nft, Backend::Legacy, Some(hint));
    check(Backend::Nft, Backend::Nft, None);
    check(Backend::Legacy, Backend::Legacy, None);
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
    for backend in [Backend::Nft, Backend::Legacy] {
        let node = Netns::new("services");
        restore(&node, backend, Family::V4, &[], HOSTILE);
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
            // As on a terminal: elsewhere, escape sequences are taken out of stdout.
            let common = ["--color", "always", "--iptables-backend", backend.name()];
            let ran = run_in(&node, &[args, &common].concat());
            for text in [&ran.stdout, &ran.stderr] {
                for part in ["\u{1b}[2J", "w\u{1b}[31m", "\u{1b}]", "\u{7}", "\u{202e}"] {
                    assert!(!text.contains(part), "{args:?}: {text:?}");
                }
                all.push_str(text);
            }
        }
        // They are shown, in another form.
        for part in ["u{1b}[31m", "u{1b}[2JIL", "]0;title"] {
            assert!(all.contains(part), "{backend:?}: {part}: {all}");
        }
    }
}
