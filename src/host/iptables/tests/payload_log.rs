//! Retention, truncation and files of payloads.

use std::fs;

use super::*;
use crate::rules::Text;

fn hooks() -> PayloadHooks {
    PayloadHooks {
        clock: || SystemTime::UNIX_EPOCH,
        unwritable: |_, _| {},
    }
}

fn failure() -> RestoreError {
    RestoreError::Spawn {
        program: "iptables-restore".to_owned(),
        cause: std::io::Error::from(std::io::ErrorKind::NotFound),
        committed: 0,
    }
}

fn text(payload: &str) -> TruncatedText {
    let mut text = TruncatedText::default();
    text.push(payload.as_bytes());
    text
}

const TOOK: Duration = Duration::from_millis(7);

#[test]
fn pages_show_the_last_payload_of_each_family() {
    let log = PayloadLog::new(KeepApplied::Last, None, hooks());
    let none = "# IPv4: no applied restore since the start\n\n# IPv6: no applied";
    assert!(log.applied().starts_with(none), "{}", log.applied());
    for payload in ["*filter\nCOMMIT\n", "*nat\nCOMMIT\n"] {
        log.record(IpFamily::V4, &text(payload), TOOK, None);
    }
    log.record(IpFamily::V6, &text("*mangle\n"), TOOK, Some(&failure()));
    assert_eq!(
        log.applied(),
        "# IPv4: ended at 1970-01-01T00:00:00Z after 7 ms, 12 bytes of input\n*nat\nCOMMIT\n\n\
         # IPv6: no applied restore since the start\n"
    );
    let failed = log.failed();
    assert!(
        failed.starts_with("# IPv4: no failed restore since the start\n"),
        "{failed}"
    );
    let words = "# failed: cannot start `iptables-restore`: entity not found\n";
    assert!(
        failed.contains(words) && failed.ends_with("*mangle\n"),
        "{failed}"
    );
}

#[test]
fn the_middle_of_a_large_payload_is_omitted() {
    let line = "-A KUBE-X -j ACCEPT\n";
    let payload = format!("*nat\n{}COMMIT\n", line.repeat(100_000));
    let mut whole = Text::new(&payload);
    let mut copied = CopiedPayload::new(&mut whole);
    let mut given = Vec::new();
    while copied.write_next(&mut given) {}
    assert_eq!(given, payload.as_bytes());
    let kept = copied.text;
    assert_eq!((kept.head.len(), kept.tail.len()), (HALF, HALF));
    let shown = describe(IpFamily::V4, &kept, SystemTime::UNIX_EPOCH, TOOK, None);
    let cut = payload.len() - 2 * HALF;
    assert!(shown.contains(&format!("# truncated: {cut} bytes omitted here\n")));
    assert!(shown.contains("input\n*nat\n") && shown.ends_with("COMMIT\n"));
    assert!(shown.len() < 2 * HALF + 200);
    // The result does not depend on the size of pieces.
    let mut again = TruncatedText::default();
    for piece in payload.as_bytes().chunks(1000) {
        again.push(piece);
    }
    assert_eq!(
        (again.head, again.tail, again.length),
        (kept.head, kept.tail, kept.length)
    );
}

#[test]
fn a_failed_payload_replaces_the_file_of_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    let log = PayloadLog::new(KeepApplied::No, Some(folder.path().to_owned()), hooks());
    log.record(IpFamily::V4, &text("*nat\n"), TOOK, None);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    for payload in ["*filter\n", "*mangle\n"] {
        log.record(IpFamily::V4, &text(payload), TOOK, Some(&failure()));
    }
    let names = fs::read_dir(folder.path()).unwrap().count();
    let written = fs::read_to_string(folder.path().join("failed-ipv4.payload")).unwrap();
    assert_eq!(names, 1);
    assert!(
        written.ends_with("*mangle\n") && !written.contains("*filter"),
        "{written}"
    );
    assert!(log.applied().contains("no applied restore"));
}

#[test]
fn a_missing_state_dir_is_reported_and_the_log_still_works() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static REPORTS: AtomicU32 = AtomicU32::new(0);
    let hooks = PayloadHooks {
        unwritable: |path, _| {
            assert!(path.ends_with("failed-ipv6.payload"));
            REPORTS.fetch_add(1, Ordering::Relaxed);
        },
        ..hooks()
    };
    let log = PayloadLog::new(KeepApplied::No, Some("/nonexistent/dir".into()), hooks);
    for _ in 0..2 {
        log.record(IpFamily::V6, &text("*nat\n"), TOOK, Some(&failure()));
    }
    assert_eq!(REPORTS.load(Ordering::Relaxed), 2);
    assert!(log.failed().ends_with("*nat\n"));
}
