//! Tests of `resources`.

use std::process::Command as Program;

use tokio::process::Command;

use super::*;

#[test]
fn an_oom_score_is_written_only_if_it_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oom_score_adj");
    fs::write(&path, "0\n").unwrap();
    assert_eq!(set_score(&path, -999).unwrap(), Changed::Yes);
    assert_eq!(fs::read_to_string(&path).unwrap(), "-999");
    assert_eq!(set_score(&path, -999).unwrap(), Changed::No);
}

#[test]
fn the_oom_score_of_a_program_is_raised_and_never_lowered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oom_score_adj");
    for (before, after) in [("-998\n", "0"), ("0\n", "0\n"), ("500\n", "500\n")] {
        fs::write(&path, before).unwrap();
        raise_score(&path, 0).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
    }
}

#[tokio::test]
async fn cpu_time_of_programs_is_counted_and_sleep_is_not() {
    #[expect(clippy::disallowed_methods, reason = "the test's own program")]
    let run = async |script: &str| {
        let before = CHILDREN.get();
        let mut command = Command::from(Program::new("sh"));
        let mut child = command.args(["-c", script]).spawn().unwrap();
        assert!(wait(&mut child).await.unwrap().success());
        CHILDREN.get().saturating_sub(before)
    };
    let idle = run("sleep 0.2").await;
    let computes = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
    let busy = run(computes).await;
    let with_child = run(&format!("sh -c '{computes}'; true")).await;
    assert!(idle < Duration::from_millis(50), "{idle:?}");
    assert!(busy > idle * 2, "{idle:?}, {busy:?}");
    assert!(with_child > idle * 2, "{idle:?}, {with_child:?}");
    assert!(thread_cpu() >= busy + with_child);
}
