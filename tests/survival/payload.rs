//! The payload of a restore that failed, for support.

use crate::support::daemon::{Backend, Daemon};
use crate::support::node::{Node, SHOP, with_restore};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{Need, http, machine_has};

/// What iptables-restore was given when it failed is at a page and in a file, and the next failure
/// takes its place.
#[test]
fn the_payload_of_a_failed_restore_is_kept_for_support() {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(Backend::Nft);
    let file = |name: &str| node.manifests.path().join(name);
    let (broken, state) = (file(".broken"), tempfile::tempdir().expect("a folder"));
    // The search for what fails also restores what was applied before, which would be the last
    // failed payload for a moment if it failed too.
    let script = format!(
        "[ -e {0} ] || exec $REAL \"$@\"\npayload=$(cat)\ncase $payload in\n*\"$(cat {0})\"*) \
         echo 'out of order' >&2; exit 1;;\nesac\nprintf '%s\\n' \"$payload\" | $REAL \"$@\"",
        broken.display()
    );
    let flag = format!("--state-dir={}", state.path().display());
    let bin = with_restore(Backend::Nft, &script);
    let daemon = node.start_with(bin, &["--profiling", &flag]);
    let page = |path: &str| {
        let page = http::get(
            &node.netns,
            Daemon::METRICS,
            &format!("/debug/payload/{path}"),
        );
        page.map_or_else(|why| why, |(_, text)| text)
    };
    eventually(PATIENCE, || {
        let applied = page("applied");
        ensure(applied.contains("--to-destination 10.4.0.12:8080"), || {
            applied
        })
    });
    assert!(page("failed").starts_with("# IPv4: no failed restore"));

    let change = |last: u8| node.write(&SHOP.replace("10.4.0.12", &format!("10.4.0.{last}")));
    let rule = |last: u8| format!("--to-destination 10.4.0.{last}:8080");
    for last in [13, 14] {
        let wanted = rule(last);
        std::fs::write(&broken, &wanted).expect("write a file");
        change(last);
        eventually(PATIENCE, || {
            let failed = page("failed");
            let is_shown = failed.contains(&wanted) && failed.contains("out of order");
            ensure(is_shown, || format!("{failed}\n{}", daemon.log()))
        });
        let path = state.path().join("failed-ipv4.payload");
        let written = std::fs::read_to_string(path).expect("read the file");
        assert!(written.contains(&wanted), "{written}");
    }
    // Syncs go on without a place for the file.
    drop(state);
    std::fs::write(&broken, rule(15)).expect("write a file");
    change(15);
    eventually(PATIENCE, || {
        let log = daemon.log();
        ensure(log.contains("cannot write the failed payload"), || log)
    });
    let other = SHOP
        .replace("shop", "cafe")
        .replace("10.96.0.10", "10.96.0.11");
    node.write(&format!("{SHOP}---\n{other}"));
    node.wait_for_rule("default/cafe:http cluster IP");
}
