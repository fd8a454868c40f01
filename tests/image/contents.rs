//! Files, labels and layout of the image.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::container::{Bundle, tag};
use crate::support::artifacts;
use crate::support::needs;
use crate::support::process::run;

const DIGEST: &str = "sha256:";

pub(super) fn blob(digest: &Value) -> PathBuf {
    let digest = digest.as_str().unwrap();
    let hex = digest.strip_prefix(DIGEST).unwrap();
    artifacts::path("oci").join("blobs/sha256").join(hex)
}

pub(super) fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns every file below a folder, links as themselves.
pub(super) fn files(folder: &Path) -> Vec<(PathBuf, Metadata)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            found.extend(files(&path));
        }
        found.push((path, metadata));
    }
    found
}

#[test]
fn the_layout_names_both_architectures_and_has_labels() {
    needs!(Image);
    let index = json_of(&artifacts::path("oci/index.json"));
    let tags: Vec<&Value> = index["manifests"].as_array().unwrap().iter().collect();
    let tag_of = |entry: &Value| entry["annotations"]["org.opencontainers.image.ref.name"].clone();
    let expected = ["", "-amd64", "-arm64"].map(|arch| json!(format!("{}{arch}", tag())));
    assert_eq!(
        tags.iter().map(|entry| tag_of(entry)).collect::<Vec<_>>(),
        expected
    );
    let name = &tags[0]["annotations"]["io.containerd.image.name"];
    let manifest = include_str!("../../deploy/rendered/kustomize-least-privilege.yaml");
    assert!(
        manifest.contains(&format!("image: {}\n", name.as_str().unwrap())),
        "{name}"
    );

    let images = json_of(&blob(&tags[0]["digest"]));
    for (image, arch) in images["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["amd64", "arm64"])
    {
        assert_eq!(
            image["platform"],
            json!({"architecture": arch, "os": "linux"})
        );
        let manifest = json_of(&blob(&image["digest"]));
        let config = json_of(&blob(&manifest["config"]["digest"]));
        assert_eq!(config["architecture"], arch);
        let label = |name: &str| {
            let name = format!("org.opencontainers.image.{name}");
            let label = &config["config"]["Labels"][&name];
            assert_eq!(*label, manifest["annotations"][&name]);
            label.as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(label("title"), "deltaproxy");
        assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(label("licenses"), env!("CARGO_PKG_LICENSE"));
        assert_eq!(label("created"), config["created"].as_str().unwrap());
        assert!(label("revision").len() >= 40, "{}", label("revision"));
        assert!(label("source").contains("://"));
        assert!(!label("description").is_empty());
    }
}

#[test]
fn every_digest_is_that_of_its_blob() {
    needs!(Image);
    let folder = artifacts::path("oci/blobs/sha256");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let printed = run(Command::new("sha256sum").arg(&path));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(printed.starts_with(name), "{printed}");
        count += 1;
    }
    // Of each architecture two layers, a configuration and a manifest; and the index.
    assert_eq!(count, 9);
}

#[test]
fn nothing_in_the_image_is_writable() {
    needs!(Image);
    let bundle = Bundle::unpack();
    let all = files(&bundle.root());
    assert!(all.len() > 200, "{}", all.len());
    for (path, metadata) in all.iter().filter(|(_, metadata)| !metadata.is_symlink()) {
        let mode = metadata.permissions().mode();
        assert_eq!(mode & 0o7222, 0, "{} has mode {mode:o}", path.display());
        assert_eq!((metadata.uid(), metadata.gid()), (0, 0));
    }
}

#[test]
fn the_image_has_programs_of_both_backends_and_no_more() {
    needs!(Image);
    let bundle = Bundle::unpack();
    let root = bundle.root();
    let all = files(&root);
    let is_program = |(path, metadata): &&(PathBuf, Metadata)| {
        let folder = path.parent().unwrap();
        folder.ends_with("bin") || folder.ends_with("sbin") && !metadata.is_dir()
    };
    let programs: BTreeSet<String> = all
        .iter()
        .filter(is_program)
        .map(|(path, _)| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut expected: BTreeSet<String> = ["deltaproxy", "kube-proxy", "kmod", "lsmod", "modinfo"]
        .into_iter()
        .chain(["modprobe", "xtables-legacy-multi", "xtables-nft-multi"])
        .map(str::to_owned)
        .collect();
    for family in ["iptables", "ip6tables"] {
        for backend in ["", "-nft", "-legacy"] {
            let suffixes = ["", "-save", "-restore"];
            expected.extend(suffixes.map(|suffix| format!("{family}{backend}{suffix}")));
        }
    }
    assert_eq!(programs, expected);
    let libgcc = all
        .iter()
        .find(|(path, _)| path.to_string_lossy().contains("libgcc"));
    assert!(libgcc.is_none(), "{libgcc:?}");
    // Started without the libraries of this machine.
    for (program, text) in [
        ("kube-proxy", "deltaproxy"),
        ("modprobe", "kmod"),
        ("iptables", "v1.8"),
    ] {
        let mut command = Command::new("chroot");
        let printed = run(command.arg(&root).args([program, "--version"]));
        assert!(printed.contains(text), "{printed}");
    }
}

#[test]
fn every_package_and_crate_has_its_license_in_the_image() {
    needs!(Image);
    let bundle = Bundle::unpack();
    let root = bundle.root();
    let packages = fs::read_dir(root.join("var/lib/dpkg/status.d")).unwrap();
    let names = packages.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in names.chain(["deltaproxy".to_owned()]) {
        let file = root.join("usr/share/doc").join(&name).join("copyright");
        assert!(fs::metadata(file).unwrap().len() > 0, "{name}");
    }
    let folder = root.join("usr/share/doc/deltaproxy");
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(text("Apache-2.0").contains("Apache License"));
    assert!(text("musl.txt").contains("musl"));
    assert!(text("rust.html").contains("Standard Library"));
    let crates = text("third-party.txt");
    let parts: Vec<&str> = crates.split("\n==== ").collect();
    assert!(parts.len() > 100, "{}", parts.len());
    for part in parts {
        let has_text = part.lines().count() > 5 || part.contains(" in this folder.");
        assert!(has_text, "no license text:\n{part}");
    }
}
