//! Instructions of one function, counted by callgrind in a child: a busy machine counts the same.

use std::env;
use std::process::Command;

/// Reports whether callgrind can be run; tests are skipped without it.
pub(crate) fn is_installed() -> bool {
    if Command::new("valgrind").arg("--version").output().is_ok() {
        return true;
    }
    assert!(
        env::var_os("REQUIRE_KERNEL").is_none(),
        "valgrind is missing"
    );
    println!("skipped: valgrind is missing");
    false
}

/// Runs the ignored test `child` of this program with these variables, and counts what `function`
/// and all that it calls execute.
pub(crate) fn instructions(function: &str, child: &str, variables: &[(&str, String)]) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(env::current_exe().unwrap())
        .args(["--exact", child, "--ignored", "--test-threads=1"])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{log}{printed}");
    let collected = log.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = collected.unwrap_or_else(|| panic!("no count in {log}"));
    let count = count.trim().parse().unwrap();
    assert!(
        count > 0.0,
        "the function was not found: are symbols stripped?"
    );
    count
}

/// Sorting adds a logarithm to what is in proportion: 1.04 between these sizes. In proportion to
/// the square it would be 4.
const SIZES: [u32; 2] = [500, 2_000];
const TOLERANCE: f64 = 1.1;

/// Fails unless what is counted at some size grows as the size does.
#[track_caller]
pub(crate) fn grows_in_proportion(what: &str, instructions: impl Fn(u32) -> f64) {
    let each = SIZES.map(|size| instructions(size) / f64::from(size));
    println!("{what}: instructions for each of {SIZES:?}: {each:?}");
    assert!(each[1] < TOLERANCE * each[0], "{what}: {each:?}");
}
