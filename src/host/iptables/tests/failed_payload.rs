//! Truncation and files of failed payloads.

use std::fs;

use super::*;
use crate::host::iptables::payload::CopiedPayload;
use crate::rules::{Payload, Text};

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
fn the_middle_of_a_large_payload_is_omitted() {
    let line = "-A KUBE-X -j ACCEPT\n";
    let payload = format!("*nat\n{}COMMIT\n", line.repeat(100_000));
    let mut whole = Text::new(&payload);
    let mut kept = TruncatedText::default();
    let mut copied = CopiedPayload::new(&mut whole, |piece| kept.push(piece));
    let mut given = Vec::new();
    while copied.write_next(&mut given) {}
    assert_eq!(given, payload.as_bytes());
    assert_eq!((kept.head.len(), kept.tail.len()), (HALF, HALF));
    let shown = String::from_utf8(describe(&kept, TOOK, &failure())).unwrap();
    let cut = payload.len() - 2 * HALF;
    assert!(shown.contains(&format!("# truncated: {cut} bytes omitted here\n")));
    assert!(shown.contains("in PATH\n*nat\n") && shown.ends_with("COMMIT\n"));
    assert!(shown.len() < 2 * HALF + 400);
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
    let payloads = FailedPayloads {
        folder: folder.path().to_owned(),
        unwritable: |path, cause| panic!("{}: {cause}", path.display()),
    };
    for payload in ["*filter\n", "*mangle\n"] {
        payloads.write(IpFamily::V4, &text(payload), TOOK, &failure());
    }
    let names = fs::read_dir(folder.path()).unwrap().count();
    let written = fs::read_to_string(folder.path().join("failed-ipv4.payload")).unwrap();
    assert_eq!(names, 1);
    let start = "# after 7 ms, 8 bytes of input\n\
                 # failed: cannot start `iptables-restore`: entity not found\n# failed: hint: ";
    assert!(written.starts_with(start), "{written}");
    assert!(
        written.ends_with("\n*mangle\n") && !written.contains("*filter"),
        "{written}"
    );
}

#[test]
fn a_missing_state_dir_is_reported() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static REPORTS: AtomicU32 = AtomicU32::new(0);
    let payloads = FailedPayloads {
        folder: "/nonexistent/dir".into(),
        unwritable: |path, _| {
            assert!(path.ends_with("failed-ipv6.payload"));
            REPORTS.fetch_add(1, Ordering::Relaxed);
        },
    };
    for _ in 0..2 {
        payloads.write(IpFamily::V6, &text("*nat\n"), TOOK, &failure());
    }
    assert_eq!(REPORTS.load(Ordering::Relaxed), 2);
}
