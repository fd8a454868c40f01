//! The payload of a restore that failed, for support.

use crate::support::daemon::Backend;
use crate::support::needs;
use crate::support::node::{Node, SHOP, with_restore};
use crate::support::wait::{PATIENCE, ensure, eventually};

/// The input of a restore that failed is in a file, and the next failure takes its place.
#[test]
fn the_payload_of_a_failed_restore_is_kept_for_support() {
    needs!(Kernel);
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
    let daemon = node.start_with(bin, &[&flag]);
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    let path = state.path().join("failed-ipv4.payload");
    assert!(!path.exists());

    let change = |last: u8| {
        let wanted = format!("--to-destination 10.4.0.{last}:8080");
        // Renamed: every payload holds the text of an empty file.
        let new = file(".new-broken");
        std::fs::write(&new, &wanted).expect("write a file");
        std::fs::rename(&new, &broken).expect("rename a file");
        node.write(&SHOP.replace("10.4.0.12", &format!("10.4.0.{last}")));
        wanted
    };
    for last in [13, 14] {
        let wanted = change(last);
        eventually(PATIENCE, || {
            let failed = std::fs::read_to_string(&path).unwrap_or_default();
            let is_written = failed.contains(&wanted) && failed.contains("out of order");
            ensure(is_written, || format!("{failed}\n{}", daemon.log()))
        });
    }
    // Syncs go on without a place for the file.
    // Removing it fails while the daemon writes the payload of another restore.
    eventually(PATIENCE, || {
        std::fs::remove_dir_all(state.path()).map_err(|error| error.to_string())
    });
    change(15);
    eventually(PATIENCE, || {
        let log = daemon.log();
        // Only the first of what cannot be written is in the log.
        let is_reported = log.contains("to --state-dir; records are lost until it succeeds");
        ensure(is_reported, || log)
    });
    let other = SHOP
        .replace("shop", "cafe")
        .replace("10.96.0.10", "10.96.0.11");
    node.write(&format!("{SHOP}---\n{other}"));
    node.wait_for_rule("default/cafe:http cluster IP");
}
