//! Tests of `process`.

use super::*;
use crate::host::tests::block_on;

/// Uses a higher score in place of 0, because a process without CAP_SYS_RESOURCE cannot give
/// itself a lower one first.
#[test]
fn a_program_and_its_children_have_an_oom_score_of_their_own() {
    let script = "cat >/dev/null; cat /proc/$$/oom_score_adj; sh -c 'cat /proc/self/oom_score_adj'";
    let run = Run {
        program: OsStr::new("sh"),
        args: &["-c", script],
        deadline: Duration::from_secs(10),
        lock: Lock::Shared,
    };
    let printed = block_on(async {
        let mut child = run.spawn(Stdio::piped(), Stdio::piped(), 700).unwrap();
        // Until here the script waits for its input to end.
        drop(child.stdin.take());
        child.wait_with_output().await.unwrap().stdout
    });
    assert_eq!(String::from_utf8_lossy(&printed), "700\n700\n");
}
