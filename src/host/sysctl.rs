//! Single kernel settings under `/proc/sys`.
//!
//! Apart because a failure has to name the setting: in a container the folder is often read-only,
//! and "permission denied" alone helps nobody.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::net::IpFamily;

/// Lets packets from and to 127.0.0.0/8 be routed, for NodePorts on localhost.
pub const ROUTE_LOCALNET: &str = "net/ipv4/conf/all/route_localnet";
/// Makes conntrack accept packets outside the TCP window.
pub const TCP_BE_LIBERAL: &str = "net/netfilter/nf_conntrack_tcp_be_liberal";
/// 1 where IPv6 is switched off.
pub const DISABLE_IPV6: &str = "net/ipv6/conf/all/disable_ipv6";

/// Why a setting could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// There is no such setting; its module may not be loaded.
    #[error("no sysctl `{name}`{}", module_hint(name))]
    Missing {
        /// With slashes, below `/proc/sys`.
        name: String,
    },
    /// It is there and cannot be used.
    #[error("cannot {verb} sysctl `{name}`{}", write_hint(source))]
    Denied {
        /// `read` or `write`.
        verb: &'static str,
        /// With slashes, below `/proc/sys`.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

fn write_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "\nhint: run privileged, if only once with --init-only, or set it on the host beforehand"
        }
        _ => "",
    }
}

fn module_hint(name: &str) -> &'static str {
    if name.contains("nf_conntrack") {
        "\nhint: modprobe nf_conntrack"
    } else {
        ""
    }
}

/// A setting that had to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// With slashes, below `/proc/sys`.
    pub name: String,
    /// What it was.
    pub before: i64,
    /// What it is now, read back: the kernel may have its own idea of what was asked for.
    pub now: i64,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.name, self.before, self.now)
    }
}

/// Whether a setting had to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It had another value.
    Yes,
    /// It already had the value; nothing was written.
    No,
}

/// The kernel settings below one folder. Names are relative to it, with slashes or dots.
#[derive(Debug, Clone)]
pub struct Sysctls {
    root: PathBuf,
}

impl Default for Sysctls {
    /// Those of this machine, or rather of this network namespace.
    fn default() -> Self {
        Self::new("/proc/sys")
    }
}

impl Sysctls {
    /// Those below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The value of a setting that holds one number.
    pub fn read(&self, name: &str) -> Result<i64, SysctlError> {
        let failed = |source| denied("read", name, source);
        let text = std::fs::read_to_string(self.path(name)).map_err(failed)?;
        text.trim()
            .parse()
            .map_err(|_| failed(io::Error::new(io::ErrorKind::InvalidData, text)))
    }

    /// Writes a setting.
    pub fn write(&self, name: &str, value: i64) -> Result<(), SysctlError> {
        // Opened for writing only: a missing setting must not become a file.
        std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.path(name))
            .and_then(|mut file| io::Write::write_all(&mut file, value.to_string().as_bytes()))
            .map_err(|source| denied("write", name, source))
    }

    /// Checks that a setting has this value or can be written, and writes nothing.
    pub fn check(&self, name: &str, value: i64) -> Result<(), SysctlError> {
        if self.read(name)? == value {
            return Ok(());
        }
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .open(self.path(name));
        opened
            .map(drop)
            .map_err(|source| denied("write", name, source))
    }

    /// Writes a setting unless it has the value already, which spares the right to write it.
    pub fn ensure(&self, name: &str, value: i64) -> Result<Changed, SysctlError> {
        let written = self.change(name, value)?;
        Ok(written.map_or(Changed::No, |_| Changed::Yes))
    }

    /// The same, and tells what became of it. `None`: nothing was written.
    pub fn change(&self, name: &str, value: i64) -> Result<Option<Written>, SysctlError> {
        let before = self.read(name)?;
        if before == value {
            return Ok(None);
        }
        self.write(name, value)?;
        Ok(Some(Written {
            name: name.to_owned(),
            before,
            now: self.read(name)?,
        }))
    }

    /// Whether this machine cannot have addresses of a family.
    ///
    /// Upstream: `cmd/kube-proxy/app/server_linux.go`, `platformCheckSupported` (v1.36)
    pub fn lacks(&self, family: IpFamily) -> bool {
        let has_ipv6 =
            || Path::new("/proc/net/if_inet6").exists() && self.read(DISABLE_IPV6).ok() != Some(1);
        family == IpFamily::V6 && !has_ipv6()
    }

    /// Dots separate as slashes do, unless there is a slash: interface names can hold dots.
    fn path(&self, name: &str) -> PathBuf {
        if name.contains('/') {
            self.root.join(name)
        } else {
            self.root.join(name.replace('.', "/"))
        }
    }
}

fn denied(verb: &'static str, name: &str, source: io::Error) -> SysctlError {
    let name = name.to_owned();
    if source.kind() == io::ErrorKind::NotFound {
        SysctlError::Missing { name }
    } else {
        SysctlError::Denied { verb, name, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_written() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("net/ipv4/conf/all");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("route_localnet"), "0\n").unwrap();
        let sysctls = Sysctls::new(root.path());

        assert_eq!(sysctls.read(ROUTE_LOCALNET).unwrap(), 0);
        assert_eq!(sysctls.ensure(ROUTE_LOCALNET, 1).unwrap(), Changed::Yes);
        assert_eq!(sysctls.ensure(ROUTE_LOCALNET, 1).unwrap(), Changed::No);
        assert_eq!(sysctls.read("net.ipv4.conf.all.route_localnet").unwrap(), 1);

        let missing = sysctls.write(TCP_BE_LIBERAL, 1).unwrap_err();
        assert_eq!(
            missing.to_string(),
            format!("no sysctl `{TCP_BE_LIBERAL}`\nhint: modprobe nf_conntrack")
        );
        std::fs::write(folder.join("odd"), "many\n").unwrap();
        let odd = sysctls.read("net/ipv4/conf/all/odd").unwrap_err();
        assert_eq!(
            odd.to_string(),
            "cannot read sysctl `net/ipv4/conf/all/odd`"
        );
    }
}
