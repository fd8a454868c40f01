//! Finds out how much of a payload that failed is in the kernel.
//!
//! Each table of a payload is applied whole or not at all, one after the other. What is known of
//! the kernel stays known if not even the first one was.

use crate::host::RestoreError;
use crate::rules::Payload;

/// The part of a payload behind so many tables.
pub(super) fn behind(text: &[u8], tables: usize) -> &[u8] {
    let (mut end, mut ended) = (0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if ended == tables {
            break;
        }
        end += line.len();
        ended += usize::from(line == b"COMMIT\n");
    }
    text.get(end..).unwrap_or_default()
}

/// Reports whether a payload that failed has changed nothing in the kernel: no table of it ended
/// before the rejected line. Of a program that was killed it is not known how far it came.
pub(super) fn is_untouched(error: &RestoreError, again: &mut dyn Payload) -> bool {
    match error {
        RestoreError::Rejected { line, .. } => !commits_before(*line, again),
        // The program reports no error once the last table is committed.
        RestoreError::Failed { status: 1.., .. } => !commits_before_last_line(again),
        error => error.committed_if_retriable() == Some(0),
    }
}

/// Reports whether more than one table is committed.
fn commits_before_last_line(payload: &mut dyn Payload) -> bool {
    let (mut text, mut commits) = (Vec::new(), 0);
    while commits < 2 && payload.write_next(&mut text) {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        commits += lines.filter(|line| *line == b"COMMIT\n").count();
        text.clear();
    }
    commits > 1
}

/// Reports whether a line before this one, counted from 1, ends a table.
fn commits_before(line: usize, payload: &mut dyn Payload) -> bool {
    let (mut text, mut before) = (Vec::new(), 1);
    while before < line && payload.write_next(&mut text) {
        for written in text.split_inclusive(|byte| *byte == b'\n') {
            if before < line && written == b"COMMIT\n" {
                return true;
            }
            before += 1;
        }
        text.clear();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Text;

    const TEXT: &[u8] = b"*filter\n-A X\nCOMMIT\n*nat\n-A COMMIT\nCOMMIT\n*mangle\nCOMMIT\n";

    #[test]
    fn what_is_behind_a_table_is_kept() {
        let kept = [0, 1, 2, 3, 9].map(|tables| behind(TEXT, tables).len());
        let last = "*mangle\nCOMMIT\n".len();
        assert_eq!(kept, [TEXT.len(), TEXT.len() - 20, last, 0, 0]);
        assert!(behind(TEXT, 1).starts_with(b"*nat\n"));
    }

    #[test]
    fn a_payload_refused_in_its_first_table_changed_nothing() {
        let refused = |line| {
            let reason = String::new();
            let error = RestoreError::Rejected { line, reason };
            is_untouched(&error, &mut Text::new(TEXT))
        };
        // Legacy names the COMMIT for what the kernel refused.
        let expected = [true, true, true, true, false, false, false];
        assert_eq!([0, 1, 2, 3, 4, 6, 99].map(refused), expected);
        for (committed, is_whole) in [(0, true), (1, false)] {
            let waited = std::time::Duration::ZERO;
            let locked = RestoreError::Locked { waited, committed };
            assert_eq!(is_untouched(&locked, &mut Text::new(TEXT)), is_whole);
        }
        for (text, is_whole) in [(TEXT, false), (&TEXT[..21], true)] {
            let stderr = String::new();
            let failed = RestoreError::Failed { status: 1, stderr };
            assert_eq!(is_untouched(&failed, &mut Text::new(text)), is_whole);
        }
        let stderr = String::new();
        let killed = RestoreError::Killed { signal: 9, stderr };
        assert!(!is_untouched(&killed, &mut Text::new(TEXT)));
    }
}
