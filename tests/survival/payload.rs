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
    let script = format!(
        "[ -e {} ] || exec $REAL \"$@\"\ncat >/dev/null; echo 'out of order' >&2; exit 1",
        broken.display()
    );
    let flag = format!("--state-dir={}", state.path().display());
    let bin = with_restore(Backend::Nft, &script);
    let daemon = node.start_with(bin, &["--profiling", &flag]);
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    let page = |path: &str| {
        let page = http::get(
            &node.netns,
            Daemon::METRICS,
            &format!("/debug/payload/{path}"),
        );
        page.map_or_else(|why| why, |(_, text)| text)
    };
    let applied = page("applied");
    assert!(
        applied.contains("--to-destination 10.4.0.12:8080"),
        "{applied}"
    );
    assert!(page("failed").starts_with("# IPv4: no failed restore"));

    std::fs::write(&broken, "").expect("write a file");
    for last in [13, 14] {
        node.write(&SHOP.replace("10.4.0.12", &format!("10.4.0.{last}")));
        let wanted = format!("--to-destination 10.4.0.{last}:8080");
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
    eventually(PATIENCE, || {
        let log = daemon.log();
        ensure(log.contains("cannot write the failed payload"), || log)
    });
    std::fs::remove_file(&broken).expect("remove a file");
    node.wait_for_rule("--to-destination 10.4.0.14:8080");
}
