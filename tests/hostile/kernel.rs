//! The same objects before the real `iptables-restore`, of both backends: it has a reader of its
//! own, and may see another rule in a line than we do.
//!
//! It needs root, and takes a hundred times as long as the properties.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::RuleSet;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::objects::{Cluster, cluster};
use super::play::{Play, Twin};
use crate::hostile::input::cases;
use crate::support::daemon::Backend;
use crate::support::netns::Netns;
use crate::support::on_both_backends;

/// How many clusters are shown to each backend.
const SAMPLES: u32 = 200;

/// Of these, one in so many is restored for good and read back.
const RESTORED: u32 = 10;

fn restore_reads_what_was_meant(backend: Backend) {
    let backend = backend.name();
    let config = cases(SAMPLES);
    let samples = config.cases;
    let mut runner = TestRunner::new(config);
    let netns = Netns::new("hostile");
    for number in 0..samples {
        let cluster = cluster().new_tree(&mut runner).unwrap().current();
        let family = [IpFamily::V4, IpFamily::V6][number as usize % 2];
        let payload = payload(&cluster, family);
        let prefix = match family {
            IpFamily::V4 => "iptables",
            IpFamily::V6 => "ip6tables",
        };
        let program = format!("{prefix}-{backend}-restore");
        netns.enter(|| {
            feed(&program, &["-w", "--noflush", "--test"], &payload);
            if number % RESTORED < 2 {
                feed(&program, &["-w", "--noflush"], &payload);
                let save = format!("{prefix}-{backend}-save");
                let saved = Command::new(save).output().unwrap();
                holds(&String::from_utf8(saved.stdout).unwrap(), &payload);
                feed(
                    &program,
                    &[],
                    "*nat\nCOMMIT\n*filter\nCOMMIT\n*mangle\nCOMMIT\n",
                );
            }
        });
    }
}

on_both_backends!(Kernel, restore_reads_what_was_meant);

/// The full payload, without counters: not every kernel has them.
fn payload(cluster: &Cluster, family: IpFamily) -> String {
    let mut play = Play::alone(cluster, Twin::Written, family);
    play.hears(cluster, Twin::Written);
    play.options.counters = BTreeSet::new();
    play.full().0
}

#[track_caller]
fn feed(program: &str, args: &[&str], payload: &str) {
    let mut command = Command::new(program);
    let command = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // A program that refuses a line does not read the rest.
    let _ = child.stdin.take().unwrap().write_all(payload.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {args:?}: {said}\n{payload}"
    );
}

/// The kernel has the chains and rules of the payload and no others.
#[track_caller]
fn holds(saved: &str, payload: &str) {
    let saved = RuleSet::parse(saved).unwrap().to_save_text();
    let mut meant = RuleSet::default();
    meant.apply(payload).unwrap();
    assert_eq!(saved, meant.to_save_text(), "{payload}");
}
