//! What the integration tests share: namespaces, a control plane, the daemon, servers, waiting.
//!
//! Every test binary compiles all of this and uses a part of it.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "test support: each binary uses a part; failing loudly is the point; tests run programs"
)]

pub mod api;
pub mod artifacts;
pub mod certificate;
pub mod daemon;
pub mod hostile;
pub mod http;
pub mod ip_set;
pub mod kube;
pub mod lab;
pub mod left_out;
pub mod netns;
pub mod node;
pub mod objects;
pub mod payloads;
pub mod played;
pub mod process;
pub mod program;
pub mod reply;
pub mod rules;
pub mod servers;
pub mod tell;
pub mod volume;
pub mod wait;

use std::process::Command;

use nix::unistd::Uid;

use left_out::{Part, skips};
pub use tell::tell;

/// What a test needs from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Root, to make network namespaces and rules in them.
    Kernel,
    /// What [`Need::Kernel`] has, etcd and kube-apiserver.
    Cluster,
    /// What [`Need::Cluster`] has, and the streaming server of the kubelet.
    Nodes,
    /// What [`Need::Cluster`] has, and kube-proxy.
    Upstream,
    /// What [`Need::Cluster`] has, kubectl, kubeadm and helm.
    Clients,
    /// What [`Need::Kernel`] has, Chromium, and the script axe-core.
    Browser,
    /// Root, and static binaries of both architectures.
    StaticBinaries,
    /// Root, etcd and kube-apiserver, the image, and what unpacks and runs it.
    Image,
}

impl Need {
    /// Returns the part of the suite of all tests with this need, if runs leave them out together.
    fn part(self) -> Option<Part> {
        match self {
            Self::Kernel | Self::Cluster | Self::Nodes | Self::Upstream | Self::Browser => None,
            Self::Clients => Some(Part::Guides),
            Self::StaticBinaries | Self::Image => Some(Part::Image),
        }
    }
}

/// Reports whether the run includes the test, and the machine has what the test needs. Prints why
/// not.
///
/// # Panics
///
/// When `REQUIRE_KERNEL` is set and something is missing.
pub fn machine_has(need: Need) -> bool {
    if skips(Part::Machine) || need.part().is_some_and(skips) {
        return false;
    }
    let missing = if Uid::effective().is_root() {
        let programs: &[&str] = match need {
            Need::Kernel | Need::StaticBinaries | Need::Browser => &[],
            Need::Cluster | Need::Image => &["kube-apiserver"],
            Need::Nodes => &["kube-apiserver", "kubelet-streams"],
            Need::Upstream => &["kube-apiserver", "kube-proxy"],
            Need::Clients => &["kube-apiserver", "kubectl", "kubeadm", "helm"],
        };
        let absent = programs.iter().find_map(|name| kube::binary(name).err());
        absent.or_else(|| artifacts::missing(need))
    } else {
        Some("it needs root".to_owned())
    };
    missing.is_none_or(|why| {
        skip(&why);
        false
    })
}

/// Reports whether the machine has a program that the test runs. Prints if not.
///
/// # Panics
///
/// As [`machine_has`].
pub fn has_program(name: &str) -> bool {
    let is_there = Command::new(name).arg("--version").output().is_ok();
    if !is_there {
        skip(&format!("{name} is missing"));
    }
    is_there
}

/// Prints that the test is skipped, and why.
///
/// # Panics
///
/// When `REQUIRE_KERNEL` is set: a skipped test must not look green there.
pub fn skip(why: &str) {
    let must_run = std::env::var_os("REQUIRE_KERNEL").is_some();
    assert!(!must_run, "cannot run this test: {why}");
    tell(format_args!("skipped: {why}"));
}

/// Returns from the test if the run leaves it out, or the machine lacks a [`Need`] of it.
macro_rules! needs {
    ($($need:ident),+) => {
        $(if !$crate::support::machine_has($crate::support::Need::$need) {
            return;
        })+
    };
}
pub(crate) use needs;

/// Declares two tests of a function that takes the backend, `NAME::on_nft` and `NAME::on_legacy`.
/// Both are skipped on a machine without the [`Need`].
macro_rules! on_both_backends {
    ($need:ident, $test:ident) => {
        mod $test {
            use $crate::support::daemon::Backend;
            use $crate::support::needs;

            #[test]
            fn on_nft() {
                needs!($need);
                super::$test(Backend::Nft);
            }

            #[test]
            fn on_legacy() {
                needs!($need);
                super::$test(Backend::Legacy);
            }
        }
    };
}
pub(crate) use on_both_backends;
