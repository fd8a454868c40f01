//! Text of failed payloads.

use super::super::interface::RestoreError;
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
