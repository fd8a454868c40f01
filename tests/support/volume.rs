//! A ConfigMap volume.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

/// A folder as kubelet makes it of a ConfigMap: the path is a link through a link that is replaced.
pub struct Volume {
    folder: TempDir,
    versions: u32,
}

impl Volume {
    /// A volume whose first version holds `text`.
    pub fn new(text: &str) -> Self {
        let mut volume = Self {
            folder: tempfile::tempdir().expect("a folder of the test"),
            versions: 0,
        };
        volume.swap(text);
        symlink("..data/c.yaml", volume.path()).expect("a folder of the test");
        volume
    }

    /// Path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("c.yaml")
    }

    /// Replaces the file, and removes the version before.
    pub fn swap(&mut self, text: &str) {
        self.versions += 1;
        let at = |name: &str| self.folder.path().join(name);
        let version = format!("..{}", self.versions);
        fs::create_dir(at(&version)).expect("a folder of the test");
        fs::write(at(&version).join("c.yaml"), text).expect("a folder of the test");
        symlink(&version, at("..new")).expect("a folder of the test");
        fs::rename(at("..new"), at("..data")).expect("a folder of the test");
        if self.versions > 1 {
            fs::remove_dir_all(at(&format!("..{}", self.versions - 1)))
                .expect("a folder of the test");
        }
    }
}
