//! The static binaries that `deploy/image/binary.sh` builds: they start where nothing else is, and
//! print the same on both architectures.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::artifacts::{ARCH, static_binary};
use crate::support::daemon::Backend;
use crate::support::lab::Lab;
use crate::support::process::{Process, run};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects};
use memchr::memmem;
use serde_json::json;
use tempfile::TempDir;

/// Returns a folder with the binary and nothing else.
fn empty_root() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    // By a program: a file that this process has written could still be open in a child of another
    // test, and then cannot be started.
    let mut copy = Command::new("cp");
    run(copy
        .arg(static_binary(ARCH))
        .arg(root.path().join("deltaproxy")));
    root
}

fn in_root(root: &Path) -> Command {
    let mut command = Command::new("chroot");
    command.arg(root).arg("/deltaproxy");
    command
}

#[test]
fn static_binaries_need_no_library() {
    needs!(StaticBinaries);
    for arch in ["amd64", "arm64"] {
        let binary = static_binary(arch);
        let segments = run(Command::new("readelf")
            .arg("--program-headers")
            .arg(&binary));
        assert!(segments.contains("LOAD"), "{segments}");
        assert!(!segments.contains("INTERP"), "{segments}");
        let dynamic = run(Command::new("readelf").arg("--dynamic").arg(&binary));
        assert!(!dynamic.contains("NEEDED"), "{dynamic}");
        // Unwind tables, except those of the files at the start and the end of a link.
        let sections = run(Command::new("readelf").args(["-S", "-W"]).arg(&binary));
        let tables = sections.lines().find(|line| line.contains(" .eh_frame "));
        let size = tables.and_then(|line| line.split_whitespace().rev().nth(5));
        let size = size.map(|size| u32::from_str_radix(size, 16).unwrap());
        assert!(size.is_none_or(|size| size < 4096), "{sections}");
    }
}

/// Otherwise a binary that is compiled in another folder would differ.
#[test]
fn static_binaries_have_no_paths_of_this_machine() {
    needs!(StaticBinaries);
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(
        || Path::new(&std::env::var_os("HOME").unwrap()).join(".cargo"),
        Into::into,
    );
    for arch in ["amd64", "arm64"] {
        let binary = fs::read(static_binary(arch)).unwrap();
        let finds = |text: &str| memmem::find(&binary, text.as_bytes()).is_some();
        // What stands in their place shows that there are paths at all.
        assert!(finds("/cargo/registry/src/"));
        assert!(!finds(env!("CARGO_MANIFEST_DIR")), "{arch}");
        assert!(!finds(cargo_home.to_str().unwrap()), "{arch}");
        assert!(!finds(".rustup/toolchains"), "{arch}");
    }
}

#[test]
fn a_static_binary_starts_in_an_empty_root() {
    needs!(StaticBinaries);
    let root = empty_root();
    let version = run(in_root(root.path()).arg("--version"));
    let expected = concat!("deltaproxy ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(expected), "{version}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

/// Names are resolved by the binary itself, without libraries or files but `/etc/hosts`.
#[test]
fn a_static_binary_resolves_the_name_of_the_api_server() {
    needs!(StaticBinaries, Cluster);
    let lab = Lab::new(Backend::Nft);
    let web = objects::service("web", json!({"clusterIP": "10.96.0.80"}));
    let api = lab.control.api();
    api.apply_all(&[web.clone(), objects::slice(&web, &["10.4.0.11"])]);
    let root = empty_root();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let kubeconfig = fs::read_to_string(lab.control.proxy_kubeconfig()).unwrap();
    let address = "10.200.0.1";
    assert!(kubeconfig.contains(address));
    write("kubeconfig", &kubeconfig.replace(address, "api.test"));
    write("etc/hosts", &format!("{address} api.test\n"));

    let mut command = lab.node.command("chroot");
    command
        .arg(root.path())
        .args(["/deltaproxy", "run", "--dry-run"]);
    command.args(["--kubeconfig=/kubeconfig", "--hostname-override=node1"]);
    let mut daemon = Process::start("the proxy", &mut command, &root.path().join("log"));
    eventually(PATIENCE, || {
        daemon.assert_running();
        let log = daemon.log();
        ensure(log.contains("--to-destination 10.4.0.11:8080"), || log)
    });
}

fn printed(command: &mut Command, args: &[&str]) -> Output {
    let output = command.args(args).env_remove("RUST_LOG").output();
    let output = output.expect("run a program");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {text}");
    output
}

/// Returns a command that emulates the other architecture, with pages of this size.
fn emulated(page_bytes: &str) -> Command {
    let machine = if ARCH == "amd64" { "aarch64" } else { "x86_64" };
    let mut command = Command::new(format!("qemu-{machine}-static"));
    command.args(["-p", page_bytes]);
    command.arg(static_binary(if ARCH == "amd64" {
        "arm64"
    } else {
        "amd64"
    }));
    command
}

#[test]
fn both_architectures_print_the_same() {
    needs!(StaticBinaries);
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/examples");
    let from = ["--manifests", examples, "--hostname-override", "node1"];
    for command in [
        &["--version"][..],
        &[&["render"], &from[..]].concat(),
        &[&["services"], &from[..]].concat(),
        &[&["explain", "10.96.10.1:80"], &from[..]].concat(),
        &[&["explain", "10.96.10.5:443/tcp"], &from[..]].concat(),
    ] {
        let native = printed(&mut Command::new(static_binary(ARCH)), command);
        assert!(!native.stdout.is_empty(), "{command:?}");
        // Kernels for arm64 have pages of 4 to 64 KiB, which matters to the allocator.
        for page_bytes in ["4096", "65536"] {
            let other = printed(&mut emulated(page_bytes), command);
            assert!(other.stdout == native.stdout, "{command:?}");
            assert!(other.stderr == native.stderr, "{command:?}");
        }
    }
}
