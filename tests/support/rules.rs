//! What the kernel of a namespace holds, and the names of chains, worked out independently of the
//! crate under test.

use std::io::{Seek, Write};

use data_encoding::BASE32;
use deltaproxy::testing::rules::{Rule, RuleSet, Table};
use sha2::{Digest, Sha256};

use super::daemon::{Backend, real_program};
use super::netns::Netns;
use super::wait::ensure;

/// IP family of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Those of `iptables`.
    V4,
    /// Those of `ip6tables`.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The plain name of its program.
    pub const fn program(self) -> &'static str {
        match self {
            Self::V4 => "iptables",
            Self::V6 => "ip6tables",
        }
    }
}

/// The rules of a namespace as the save program prints them.
pub fn saved(netns: &Netns, backend: Backend, family: Family) -> String {
    netns.run(&format!("{}-{}-save", family.program(), backend.name()))
}

/// The lines of saved rules without what differs without meaning anything: comments with times, and
/// the counters of chains.
pub fn plain(save: &str) -> impl Iterator<Item = &str> {
    let lines = save.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| match line.split_once(" [") {
        Some((chain, _)) if line.starts_with(':') => chain,
        _ => line,
    })
}

/// Hands this to the real restore program there, which waits for the lock and commits each table at
/// once.
#[track_caller]
pub fn restore(netns: &Netns, backend: Backend, family: Family, flags: &[&str], payload: &str) {
    let restored = try_restore(netns, backend, family, flags, payload);
    restored.unwrap_or_else(|said| panic!("{said}\n{payload}"));
}

/// Restores a payload as [`restore`] does; the error is the output of the program.
pub fn try_restore(
    netns: &Netns,
    backend: Backend,
    family: Family,
    flags: &[&str],
    payload: &str,
) -> Result<(), String> {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(payload.as_bytes()).expect("write a payload");
    file.rewind().expect("go back in a file");
    let program = real_program(backend, &format!("{}-restore", family.program()));
    let mut command = netns.command(program);
    let output = command.arg("-w").args(flags).stdin(file).output();
    let output = output.expect("run a restore");
    ensure(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })
}

/// The name of a service chain: `KUBE-SVC-`, `-SVL-`, `-EXT-` or `-FW-` of a service port.
///
/// Upstream: pkg/proxy/iptables/proxier.go, portProtoHash (v1.37)
pub fn service_chain(prefix: &str, service_port: &str, protocol: &str) -> String {
    format!("{prefix}{}", hash(&[service_port, protocol]))
}

/// The name of an endpoint's chain.
///
/// Upstream: pkg/proxy/iptables/proxier.go, servicePortEndpointChainName (v1.37)
pub fn endpoint_chain(service_port: &str, protocol: &str, endpoint: &str) -> String {
    format!("KUBE-SEP-{}", hash(&[service_port, protocol, endpoint]))
}

fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
    }
    BASE32.encode(&hasher.finalize())[..16].to_owned()
}

/// The rules of a chain without jumps to third-party chains.
pub fn own_rules(rules: &[Rule]) -> Vec<&Rule> {
    let is_own = |rule: &&Rule| {
        let target = rule.target_chain();
        target.is_none_or(|target| target.starts_with("KUBE-"))
    };
    rules.iter().filter(is_own).collect()
}

/// The number of tree chains: no other chain of a proxy has a slash in its name.
pub fn tree_chains(rules: &RuleSet) -> usize {
    let chains = Table::ALL.into_iter().flat_map(|table| rules.chains(table));
    let is_tree = |name: &str| name.starts_with("KUBE-") && name.contains('/');
    chains.filter(|(name, _)| is_tree(name)).count()
}
