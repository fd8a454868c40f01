//! Taking over from a kube-proxy of long ago, on a real kernel: its rules go, those of
//! kubelet and of other programs stay.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::lab::CLUSTER_CIDR;
use crate::support::netns::Netns;
use crate::support::on_both_backends;
use crate::support::rules::{Family, plain, restore, saved};
use crate::support::wait::{PATIENCE, ensure, eventually};

/// What kubelets make, and use or did use; filled or not.
const KUBELETS: [&str; 3] = [
    "KUBE-IPTABLES-HINT",
    "KUBE-KUBELET-CANARY",
    "KUBE-MARK-DROP",
];

/// What dumps refer to and do not hold, and the sign by which kubelet's backend is known.
const BESIDES: &str = "\
*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*nat
:KUBE-MARK-DROP - [0:0]
:cali-PREROUTING - [0:0]
COMMIT
";

/// The rules of a kernel, each as its table and the line, sorted; without what means nothing, and
/// without the policies of built-in chains.
type Lines = Vec<(String, String)>;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn start(netns: &Netns, backend: Backend) -> Daemon {
    let manifests = format!("--manifests={}", folder("deploy/examples").display());
    let args = [&manifests, CLUSTER_CIDR, "--hostname-override=node1"];
    Daemon::start_program(&Program::Deltaproxy, netns, backend, &args)
}

fn lines(save: &str) -> Lines {
    let mut table = "";
    let mut lines = Vec::new();
    for line in plain(save) {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if line != "COMMIT" && (!line.starts_with(':') || line.ends_with(" -")) {
            lines.push((table.to_owned(), line.to_owned()));
        }
    }
    lines.sort_unstable();
    lines
}

/// Whether a line is no kube-proxy's: of a chain that it does not write, and leading to none.
fn is_of_others(line: &str) -> bool {
    let is_proxys = |chain: &&str| chain.starts_with("KUBE-") && !KUBELETS.contains(chain);
    // `:CHAIN -`, or `-A CHAIN RULE`.
    let declared = line.strip_prefix(':');
    let chain = declared.or_else(|| line.strip_prefix("-A "));
    let chain = chain.and_then(|rest| rest.split(' ').next());
    let target = line.rsplit_once(" -j ").map(|(_, rest)| rest);
    let target = target.and_then(|rest| rest.split(' ').next());
    ![chain, target]
        .into_iter()
        .flatten()
        .any(|name| is_proxys(&name))
}

/// What it writes where nothing was.
fn fresh(backend: Backend, family: Family) -> Lines {
    let netns = Netns::new("fresh");
    let _daemon = start(&netns, backend);
    let mut before = Lines::new();
    // All of it is written by one restore, which three canaries tell of.
    eventually(PATIENCE, || {
        let save = saved(&netns, backend, family);
        before = lines(&save);
        ensure(save.matches(":KUBE-PROXY-CANARY").count() == 3, || save)
    });
    assert!(before.iter().all(|(_, line)| !is_of_others(line)));
    before
}

fn is_taken_over(backend: Backend, family: Family, dump: &str, gone: &[&str]) {
    let fresh = fresh(backend, family);
    let netns = Netns::new("old");
    let dump = fs::read_to_string(folder("tests/dumps").join(dump)).unwrap();
    for payload in [BESIDES, &dump] {
        restore(&netns, backend, family, &["--noflush"], payload);
    }
    let old = saved(&netns, backend, family);
    for name in gone {
        assert!(old.contains(name), "{old}");
    }
    let of_others = lines(&old)
        .into_iter()
        .filter(|(_, line)| is_of_others(line));
    let mut expected: Lines = fresh.into_iter().chain(of_others).collect();
    expected.sort_unstable();
    for chain in KUBELETS {
        let has_it = |(_, line): &(String, String)| line.starts_with(&format!(":{chain} "));
        assert!(expected.iter().any(has_it), "{expected:#?}");
    }

    let daemon = start(&netns, backend);
    let mut found = Lines::new();
    eventually(PATIENCE, || {
        found = lines(&saved(&netns, backend, family));
        ensure(found == expected, || {
            let lacking = expected.iter().filter(|line| !found.contains(line));
            let more = found.iter().filter(|line| !expected.contains(line));
            let (lacking, more): (Vec<_>, Vec<_>) = (lacking.collect(), more.collect());
            let (wanted, found) = (expected.len(), found.len());
            format!("{found} of {wanted}: lacking {lacking:#?}, too many {more:#?}")
        })
    });
    assert!(!daemon.log().contains("restore failed"), "{}", daemon.log());
    // Policies are the operator's.
    let policies = |save: &str| save.matches(":FORWARD DROP").count();
    assert_eq!(policies(&saved(&netns, backend, family)), policies(&old));
}

/// Names of a release's dump, its family, and chains of it that go.
const RELEASES: [(&str, Family, [&str; 4]); 3] = [
    (
        "kube-proxy-1.20-v4.save",
        Family::V4,
        [
            "KUBE-XLB-",
            "KUBE-FW-Q2W3",
            "KUBE-SVC-TCOU",
            "KUBE-SEP-AAAA",
        ],
    ),
    (
        "kube-proxy-1.23-v6.save",
        Family::V6,
        [
            "KUBE-XLB-",
            "KUBE-SVL-EEEE",
            "KUBE-SVC-DDDD",
            "KUBE-SEP-DDDD",
        ],
    ),
    (
        "kube-proxy-1.29-v4.save",
        Family::V4,
        [
            "KUBE-EXT-FFFF",
            "KUBE-FW-FFFF",
            "KUBE-SVL-FFFF",
            "KUBE-SEP-FFFF",
        ],
    ),
];

fn rules_of_old_releases_are_taken_over(backend: Backend) {
    for (dump, family, gone) in RELEASES {
        is_taken_over(backend, family, dump, &gone);
    }
}

on_both_backends!(Kernel, rules_of_old_releases_are_taken_over);
