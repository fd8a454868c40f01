//! The iptables programs of the fleet: they take all that they are told, and succeed.
//!
//! Apart because it is the one thing that is not real here. Hundreds of nodes do not fit a machine
//! whose kernel validates the rules of each; and what a kernel does, no API server hears of.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

/// Says a version whatever it is asked: both programs want to know it and ignore it elsewhere.
const ASKED: &str = "#!/bin/sh\necho 'iptables v1.8.9 (legacy)'\n";
/// An empty kernel.
const SAVE: &str = "#!/bin/sh\n";
/// Whoever writes must not find the pipe closed.
const RESTORE: &str = "#!/bin/sh\nexec /bin/cat > /dev/null\n";

/// A folder with them, to be all of a program's PATH.
pub fn programs() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for family in ["iptables", "ip6tables"] {
        for (role, script) in [("", ASKED), ("-save", SAVE), ("-restore", RESTORE)] {
            let path = folder.path().join(format!("{family}{role}"));
            fs::write(&path, script).expect("write a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
    }
    folder
}
