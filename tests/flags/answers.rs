//! What the program says and writes, without a kernel or a cluster.

use std::fs;
use std::path::Path;

use super::scene::{HEADER, run, said};
use super::table::Row;

/// Runs `--check-config` on a file of these fields. Returns the exit code, stdout and stderr.
fn checked(folder: &Path, flags: &[&str], fields: &str) -> (Option<i32>, String, String) {
    let file = folder.join("c.yaml");
    fs::write(&file, format!("{HEADER}{fields}\n")).unwrap();
    let config = format!("--config={}", file.display());
    let output = run(&[&["run", "--check-config", &config], flags].concat());
    (output.code, output.stdout, output.stderr)
}

/// A gate of a later release, and a field that it may have.
const UNKNOWN: &str = "mode: iptables\nfeatureGates: {Later: true}\nclusterCdir: 10.0.0.0/8";

/// `--check-config`: all problems and warnings, and nothing is started.
pub fn checks(_: &Row, folder: &Path) {
    let valid = |warnings| format!("the configuration is valid; warnings: {warnings}\n");
    let (code, stdout, stderr) = checked(folder, &["--strict"], "mode: iptables");
    assert_eq!((code, stdout, stderr.as_str()), (Some(0), valid(0), ""));
    let (code, stdout, stderr) = checked(folder, &["--strict"], "ipvs: {scheduler: rr}");
    assert_eq!((code, stdout), (Some(0), valid(0)), "{stderr}");
    let notes = [
        "note: set, but without effect in this version: `ipvs.scheduler`\n",
        "note: proxy mode is not set: ",
    ];
    assert!(notes.iter().all(|note| stderr.contains(note)), "{stderr}");
    // JSON is for the log of a daemon.
    let (code, stdout, stderr) = checked(folder, &["--logging-format=json", "--cleanup"], UNKNOWN);
    assert_eq!((code, stdout), (Some(0), valid(2)), "{stderr}");
    let [field, gate] = stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("{stderr}");
    };
    let end = "unknown fields `clusterCdir` (did you mean `clusterCIDR`?) ignored";
    assert!(
        field.starts_with("warning: lenient decoding of `"),
        "{field}"
    );
    assert!(field.ends_with(end), "{field}");
    assert_eq!(gate, "warning: unknown feature gate `Later` ignored");
    let fields = format!("{UNKNOWN}\noomScoreAdj: 5000\nnodePortAddresses: [PRIMARY]");
    let (code, stdout, stderr) = checked(folder, &[], &fields);
    assert_eq!((code, stdout.as_str()), (Some(64), ""), "{stderr}");
    for start in ["warning: ", "error: "] {
        let count = stderr
            .lines()
            .filter(|line| line.starts_with(start))
            .count();
        assert_eq!(count, 2, "{stderr}");
    }
}

/// `--strict`: warnings fail the check.
pub fn checks_strictly(_: &Row, folder: &Path) {
    let (code, stdout, stderr) = checked(folder, &["--strict"], UNKNOWN);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    let last = stderr.lines().last();
    assert_eq!(
        last,
        Some("error: the configuration has warnings: 2"),
        "{stderr}"
    );
    assert_eq!(run(&["run", "--strict"]).code, Some(64));
}

/// `--config`: the file's fields count, and the flag that it is in place of does not.
pub fn file_counts(row: &Row, folder: &Path) {
    let (file, written) = (folder.join("c.yaml"), folder.join("written.yaml"));
    fs::write(&file, format!("{HEADER}oomScoreAdj: 5\n")).unwrap();
    let flag = format!("--{}={}", row.flag, file.display());
    let to = format!("--write-config-to={}", written.display());
    for (flags, score) in [(&[flag.as_str()][..], 5), (&[], 7)] {
        let output = run(&[&["run", &to, "--oom-score-adj=7"], flags].concat());
        assert!(output.is_success(), "{output:#?}");
        let said = &output.stderr;
        let is_told = said.contains("flags ignored because --config is set: `--oom-score-adj`");
        assert_eq!(is_told, score == 5, "{said}");
        let written = fs::read_to_string(&written).unwrap();
        let line = format!("\noomScoreAdj: {score}\n");
        assert!(written.contains(&line), "{written}");
    }
}

/// `--proxy-mode`: what it can be.
pub fn refuses_modes(row: &Row, _: &Path) {
    let rest = "is not supported\nhint: use `iptables`, or keep kube-proxy on this node";
    for mode in [row.value, "nftables"] {
        let output = run(&["run", &format!("--{}={mode}", row.flag)]);
        let expected = format!("error: --{}: proxy mode `{mode}` {rest}\n", row.flag);
        assert_eq!((output.code, output.stderr), (Some(64), expected));
    }
    said(&["--proxy-mode=iptables"]);
}
