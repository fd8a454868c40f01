//! Finds the static binaries, the image and axe-core, which `tests/run.sh` builds or installs.

use std::path::{Path, PathBuf};

use super::Need;

/// Tag of the image for this architecture, without the version.
pub const ARCH: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};

/// Programs that unpack and run the image, and the profile of system calls they apply.
const RUNTIME: [&str; 3] = [
    "/usr/bin/umoci",
    "/usr/bin/crun",
    "/usr/share/containers/seccomp.json",
];

/// Returns a path below `.cache/image`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(".cache/image")
        .join(name)
}

/// Returns the script that judges how accessible a page is.
pub fn axe() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/axe/package/axe.min.js")
}

/// Returns the static binary for an architecture.
pub fn static_binary(arch: &str) -> PathBuf {
    path("bin").join(arch).join("deltaproxy")
}

/// Returns what is missing for a test of binaries or of the image.
pub(super) fn missing(need: Need) -> Option<String> {
    let files = match need {
        Need::StaticBinaries => ["amd64", "arm64"].map(static_binary).to_vec(),
        Need::Image => RUNTIME
            .iter()
            .map(PathBuf::from)
            .chain([path("oci/index.json")])
            .collect(),
        Need::Browser => vec![PathBuf::from("/usr/bin/chromium"), axe()],
        Need::Kernel | Need::Cluster | Need::Nodes | Need::Upstream | Need::Clients => Vec::new(),
    };
    let missing = files.into_iter().find(|file| !file.is_file())?;
    let missing = missing.display();
    Some(format!(
        "no `{missing}`; tests/run.sh builds or installs it"
    ))
}
