//! Restores that are killed, stopped, hang or fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::daemon::Backend;
use crate::support::node::with_restore;
use crate::support::{needs, on_both_backends, tell};
use crate::survival::scene::{Scene, nothing_is_left, open_files};

/// Faults, in this order: what a restore does first while the file `$F` exists, and for how long;
/// without a time it ends by itself.
const FAULTS: [(&str, &str, u64); 6] = [
    ("restore killed once", "rm $F; kill -9 $$", 0),
    ("restore fails once", "rm $F; exit 1", 0),
    (
        "restore fails 3 times",
        "echo >>$F.count; [ $(wc -l <$F.count) -lt 3 ] || rm $F; exit 1",
        0,
    ),
    ("every restore fails for 3 s", "exit 1", 3),
    (
        "restore stopped for 3 s",
        "rm $F; (sleep 3; kill -CONT $$) & kill -STOP $$",
        0,
    ),
    (
        "restore hangs for 3 s",
        "while [ -e $F ]; do sleep 0.1; done",
        3,
    ),
];

fn failing_restores_are_survived(backend: Backend) {
    let scene = Scene::new(backend);
    let file = scene.node.manifests.path().join(".fault");
    let script = format!(
        "F={}\n[ ! -e $F ] || . $F\nexec $REAL \"$@\"",
        file.display()
    );
    let daemon = scene.start(with_restore(backend, &script));
    let files = open_files(daemon.id());
    for (what, fault, seconds) in FAULTS {
        fs::write(&file, fault).expect("write a file");
        scene.change();
        std::thread::sleep(Duration::from_secs(seconds));
        if seconds > 0 {
            fs::remove_file(&file).expect("remove a file");
        }
        let start = Instant::now();
        scene.wait_until_fresh(what, || daemon.log());
        assert!(!file.exists(), "{what}: no restore ran");
        scene.report(what, start.elapsed());
        nothing_is_left(daemon.id(), files, what);
    }
}

on_both_backends!(Kernel, failing_restores_are_survived);

/// A group of processes that may use next to no memory, mounted where the node sees it: `ip netns
/// exec` hides those of the machine.
struct MemoryGroup {
    group: PathBuf,
    mounted_at: PathBuf,
}

impl MemoryGroup {
    /// `None`: the machine has no memory controller of version 1.
    fn new(mounted_at: PathBuf) -> Option<Self> {
        let controller = Path::new("/sys/fs/cgroup/memory");
        if !controller.join("memory.limit_in_bytes").exists() {
            return None;
        }
        let name = format!("deltaproxy-test-{}", std::process::id());
        let group = controller.join(name);
        fs::create_dir(&group).expect("create a control group");
        fs::write(group.join("memory.limit_in_bytes"), "65536").expect("set a limit");
        fs::create_dir(&mounted_at).expect("create a folder");
        let mut mount = Command::new("mount");
        mount.arg("--bind").args([&group, &mounted_at]);
        assert!(mount.status().expect("mount").success());
        Some(Self { group, mounted_at })
    }

    /// Times that a process wanted more.
    fn failures(&self) -> u64 {
        let text = fs::read_to_string(self.group.join("memory.failcnt"));
        let text = text.expect("read a control group");
        text.trim().parse().expect("a number")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(&self.mounted_at)
            .status();
        let _ = fs::remove_dir(&self.group);
    }
}

#[test]
fn a_restore_that_runs_out_of_memory_is_survived() {
    needs!(Kernel);
    let scene = Scene::new(Backend::Nft);
    let folder = scene.node.manifests.path();
    let Some(group) = MemoryGroup::new(folder.join(".group")) else {
        tell("skipped: no memory controller of cgroup v1");
        return;
    };
    let file = folder.join(".fault");
    let script = format!(
        "if [ -e {fault} ]; then rm {fault}; echo $$ >{group}/cgroup.procs; fi\nexec $REAL \"$@\"",
        fault = file.display(),
        group = group.mounted_at.display(),
    );
    let daemon = scene.start(with_restore(Backend::Nft, &script));
    let before = group.failures();
    scene.survives(&daemon, "restore killed for want of memory", || {
        fs::write(&file, "").expect("write a file");
        scene.change();
    });
    assert!(group.failures() > before, "nothing ran out of memory");
    daemon.assert_logged("killed by signal 9");
}
