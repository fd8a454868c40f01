//! A container of the image, run as kubelet has it run: by an OCI runtime, from the manifest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::artifacts::{self, ARCH};
use crate::support::netns::Netns;
use crate::support::process::{Process, run};

/// Runs the runtime where it sees no control groups: which kind a machine has does not matter here.
const RUN: &str = "\
umount -R /sys/fs/cgroup 2>/dev/null
mount -t tmpfs none /sys/fs/cgroup || exit 1
exec crun --cgroup-manager=disabled --root \"$1/state\" run --bundle \"$1/bundle\" \"$2\"
";

/// Capabilities that setting up a node takes, with their numbers in the kernel.
const PRIVILEGED: [(u32, &str); 6] = [
    (1, "CAP_DAC_OVERRIDE"),
    (12, "CAP_NET_ADMIN"),
    (13, "CAP_NET_RAW"),
    (16, "CAP_SYS_MODULE"),
    (21, "CAP_SYS_ADMIN"),
    (24, "CAP_SYS_RESOURCE"),
];

/// The image, unpacked: a root file system, and the runtime's configuration from the image's own.
pub(super) struct Bundle {
    folder: TempDir,
}

impl Bundle {
    /// Unpacks the image of this architecture.
    pub(super) fn unpack() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tag = format!("{}:{}-{ARCH}", artifacts::path("oci").display(), tag());
        let mut umoci = Command::new("umoci");
        umoci.args(["unpack", "--image", &tag]);
        run(umoci.arg(folder.path().join("bundle")));
        Self { folder }
    }

    /// Returns the root file system.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().join("bundle/rootfs")
    }

    /// Returns what the runtime would run without a manifest.
    pub(super) fn config(&self) -> Value {
        let text = fs::read(self.folder.path().join("bundle/config.json")).expect("a file");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Starts a container of a Pod of the manifest in a namespace of the test.
    pub(super) fn start(
        &self,
        name: &str,
        netns: &Netns,
        container: &Value,
        volumes: &Path,
    ) -> Process {
        let config = configured(self.config(), netns, container, volumes);
        let text = serde_json::to_vec(&config).expect("JSON");
        fs::write(self.folder.path().join("bundle/config.json"), text).expect("write a file");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", RUN, "sh"]);
        command.arg(self.folder.path()).arg(name);
        let log = self.folder.path().join(format!("{name}.log"));
        Process::start(name, &mut command, &log)
    }
}

/// Returns the tag of the image that is all architectures.
pub(super) fn tag() -> String {
    format!("v{}", env!("CARGO_PKG_VERSION"))
}

/// Returns the configuration with what kubelet takes from the manifest.
fn configured(mut config: Value, netns: &Netns, container: &Value, volumes: &Path) -> Value {
    let security = &container["securityContext"];
    let is_privileged = security["privileged"] == true;
    config["process"]["terminal"] = false.into();
    config["process"]["args"] = container["command"].clone();
    config["process"]["noNewPrivileges"] = (security["allowPrivilegeEscalation"] == false).into();
    config["root"]["readonly"] = security["readOnlyRootFilesystem"].clone();
    let capabilities = if is_privileged {
        privileged()
    } else {
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        strings(&security["capabilities"]["add"])
            .iter()
            .map(|name| format!("CAP_{name}"))
            .collect()
    };
    config["process"]["capabilities"] = json!({
        "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
    });
    config["linux"] = json!({"namespaces": [
        {"type": "mount"}, {"type": "pid"}, {"type": "ipc"}, {"type": "uts"},
        {"type": "network", "path": netns.path()},
    ]});
    if !is_privileged {
        config["linux"]["readonlyPaths"] = json!(["/proc/sys", "/proc/bus", "/proc/irq"]);
        config["linux"]["maskedPaths"] = json!(["/proc/kcore", "/proc/keys", "/proc/timer_list"]);
        config["linux"]["seccomp"] = seccomp(&capabilities);
    }
    config["mounts"] = mounts(container, netns, volumes, is_privileged);
    config
}

/// Returns the capabilities of a privileged container, without those that the test itself lacks.
fn privileged() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").expect("a file");
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .expect("a line");
    let held = u64::from_str_radix(held.trim(), 16).expect("a number");
    let is_held = |(number, _): &&(u32, &str)| held & (1 << number) != 0;
    let names = PRIVILEGED.iter().filter(is_held);
    names.map(|(_, name)| (*name).to_owned()).collect()
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|text| text.as_str().expect("a string").to_owned())
        .collect()
}

fn mounts(container: &Value, netns: &Netns, volumes: &Path, is_privileged: bool) -> Value {
    let access = if is_privileged { "rw" } else { "ro" };
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
               "options": ["nosuid", "mode=755"]}),
        json!({"destination": "/sys", "type": "sysfs", "source": "sysfs",
               "options": ["nosuid", "noexec", "nodev", access]}),
    ];
    for mount in container["volumeMounts"].as_array().expect("a list") {
        let source = match mount["name"].as_str().expect("a name") {
            "xtables-lock" => {
                // As `FileOrCreate` of the manifest.
                let lock = netns.xtables_lock();
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(&lock)
                    .expect("a lock");
                lock
            }
            "lib-modules" => "/lib/modules".into(),
            name => volumes.join(name),
        };
        // A machine without modules has no such folder, and a test may make none.
        if !source.exists() {
            continue;
        }
        let access = if mount["readOnly"] == true {
            "ro"
        } else {
            "rw"
        };
        mounts.push(
            json!({"destination": mount["mountPath"], "type": "bind", "source": source,
                           "options": ["rbind", access]}),
        );
    }
    mounts.into()
}

/// Returns the profile `RuntimeDefault` as CRI-O and podman have it, for a set of capabilities.
fn seccomp(capabilities: &[String]) -> Value {
    let text = fs::read("/usr/share/containers/seccomp.json").expect("a file");
    let profile: Value = serde_json::from_slice(&text).expect("JSON");
    let holds = |list: &Value, is_held: &dyn Fn(&str) -> bool| {
        let names = list.as_array().into_iter().flatten();
        names
            .filter_map(Value::as_str)
            .map(is_held)
            .collect::<Vec<bool>>()
    };
    let has_capability = |name: &str| capabilities.iter().any(|held| held == name);
    let is_this_arch = |name: &str| name == ARCH;
    let applies = |rule: &&Value| {
        let arches = holds(&rule["includes"]["arches"], &is_this_arch);
        holds(&rule["includes"]["caps"], &has_capability)
            .iter()
            .all(|held| *held)
            && (arches.is_empty() || arches.contains(&true))
            && !holds(&rule["excludes"]["caps"], &has_capability).contains(&true)
            && !holds(&rule["excludes"]["arches"], &is_this_arch).contains(&true)
    };
    let rules = profile["syscalls"].as_array().expect("a list").iter();
    let rules = rules.filter(applies).map(|rule| {
        let mut kept = json!({"names": rule["names"], "action": rule["action"]});
        for key in ["args", "errnoRet"] {
            if !rule[key].is_null() && rule[key] != json!([]) {
                kept[key] = rule[key].clone();
            }
        }
        kept
    });
    json!({
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "syscalls": rules.collect::<Vec<Value>>(),
    })
}
