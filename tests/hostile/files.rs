//! Files that are none, that have no end, or that stand for more than they hold.
//!
//! The program itself reads them: it has to end, report why, and not use up the memory.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::needs;
use crate::support::netns::Netns;
use crate::support::process::Process;
use crate::support::wait::{PATIENCE, eventually};

/// Runs the program to its end, with no more memory than this many kilobytes, and returns what it
/// complained of.
#[track_caller]
fn refused(args: &[&str]) -> String {
    const MOST_MEMORY: u32 = 1 << 20;
    let script = format!("ulimit -v {MOST_MEMORY}; exec timeout 120 \"$@\"");
    let program = env!("CARGO_BIN_EXE_deltaproxy");
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script, "sh", program]).args(args);
    // One that were taken is to find no cluster.
    let output = command
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Neither a success, nor a signal, nor the end of the time.
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| ![0, 124].contains(&code)),
        "{args:?}: {output:?}"
    );
    said
}

/// What is said of this path, wherever a path can be given.
#[track_caller]
fn check(path: &Path, expected: &str) {
    let path = path.to_str().unwrap();
    for args in [
        &["render", "--hostname-override", "a", "--manifests", path][..],
        &["run", "--config", path],
        &["render", "--hostname-override", "a", "--kubeconfig", path],
        &["services", "--from-save", path],
    ] {
        let said = refused(args);
        assert!(
            said.contains(path) && said.contains(expected),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn a_file_without_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.yaml");
    File::create(&path).unwrap().set_len(1 << 31).unwrap();
    check(&path, "MiB, the maximum size");
    let folder = directory.path().to_str().unwrap();
    let said = refused(&["render", "--hostname-override", "a", "--manifests", folder]);
    assert!(said.contains("large.yaml`: larger than 512 MiB"), "{said}");
}

#[test]
fn devices_and_directories_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let large = "larger than 4 MiB, the maximum size";
    for (args, expected) in [
        (["run", "--config", "/dev/zero"], large),
        (["render", "--kubeconfig", "/dev/zero"], large),
        (["run", "--config", path], "Is a directory"),
        (["services", "--from-save", path], "Is a directory"),
    ] {
        let said = refused(&args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

/// Text that nests deeper than any stack, or stands for more than any memory.
#[test]
fn depth_and_aliases_are_limited() {
    let directory = tempfile::tempdir().unwrap();
    let deep =
        |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let dashes: String = (0..3000).map(|depth| " ".repeat(depth) + "-\n").collect();
    let mut laugh = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(laugh, "a{level}: &a{level} [{before}]").unwrap();
    }
    for (number, text) in [
        format!("kind: Service\nmetadata: {}\n", deep("[", "]")),
        format!("metadata: {}\nkind: Service\n", deep("{a: ", "}")),
        format!("kind: Pod\nspec:\n{dashes}"),
        format!("kind: Service\nmetadata:\n{dashes}"),
        format!(
            "{{\"kind\": \"Service\", \"metadata\": {}}}",
            deep("[", "]")
        ),
        format!("{{\"metadata\": {}}}", deep("{\"a\":", "}")),
        "{\"kind\": \"List\", \"items\": [".repeat(100_000),
        "kind: List\nitems: [".to_owned() + &"{kind: List, items: [".repeat(10_000),
        format!("kind: Service\n{laugh}"),
        format!("{laugh}kind: Service\n"),
        "<<: &a {<<: *a}\nkind: Service\n".to_owned(),
        "&a [*a]".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let path = directory.path().join(format!("{number}.yaml"));
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        for args in [
            &["render", "--hostname-override", "a", "--manifests", path][..],
            &["run", "--config", path],
            &["render", "--hostname-override", "a", "--kubeconfig", path],
        ] {
            let said = refused(args);
            assert!(said.contains(path), "{args:?}: {said}");
        }
    }
}

/// What a shell makes of `--config <(...)`: it can be read once.
#[test]
fn a_daemon_lives_on_a_pipe() {
    needs!(Kernel);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (pipe, manifests) = (at("config"), at("manifests"));
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    fs::create_dir(&manifests).unwrap();
    let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                hostnameOverride: node1\nmetricsBindAddress: 'off'\nhealthzBindAddress: 'off'\n\
                conntrack: {maxPerCore: 0}\n";
    let netns = Netns::new("pipe");
    let mut command = netns.command(env!("CARGO_BIN_EXE_deltaproxy"));
    let command = command.arg("run").arg("--config").arg(&pipe);
    let command = command.arg("--manifests").arg(&manifests);
    let mut daemon = Process::start("deltaproxy", command, &at("log"));
    let mut writer = eventually(PATIENCE, || {
        daemon.assert_running();
        let mut options = File::options();
        // Fails while the daemon has not opened it.
        let options = options.write(true).custom_flags(nix::libc::O_NONBLOCK);
        options.open(&pipe).map_err(|error| error.to_string())
    });
    writer.write_all(text.as_bytes()).unwrap();
    drop(writer);
    daemon.wait_for_log("synced family=IPv6");
    assert_eq!(daemon.terminate(PATIENCE).code(), Some(0));
}
