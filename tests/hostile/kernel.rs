//! The same objects before the real `iptables-restore`, of both backends: it has a reader of its
//! own, and may see another rule in a line than we do.
//!
//! It needs root, and takes a hundred times as long as the properties.

use std::collections::BTreeSet;

use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::RuleSet;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::objects::{Cluster, cluster};
use super::play::{Play, Twin};
use crate::support::daemon::Backend;
use crate::support::hostile::cases;
use crate::support::netns::Netns;
use crate::support::on_both_backends;
use crate::support::rules::{Family, restore, saved};

/// How many clusters are shown to each backend.
const SAMPLES: u32 = 200;

/// Of these, one in so many is restored for good and read back.
const RESTORED: u32 = 10;

fn restore_reads_what_was_meant(backend: Backend) {
    let config = cases(SAMPLES);
    let samples = config.cases;
    let mut runner = TestRunner::new(config);
    let netns = Netns::new("hostile");
    for number in 0..samples {
        let cluster = cluster().new_tree(&mut runner).unwrap().current();
        let (ip_family, family) =
            [(IpFamily::V4, Family::V4), (IpFamily::V6, Family::V6)][number as usize % 2];
        let payload = payload(&cluster, ip_family);
        let feed = |flags: &[&str], text: &str| restore(&netns, backend, family, flags, text);
        feed(&["--noflush", "--test"], &payload);
        if number % RESTORED < 2 {
            feed(&["--noflush"], &payload);
            holds(&saved(&netns, backend, family), &payload);
            feed(&[], "*nat\nCOMMIT\n*filter\nCOMMIT\n*mangle\nCOMMIT\n");
        }
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

/// The kernel has the chains and rules of the payload and no others.
#[track_caller]
fn holds(saved: &str, payload: &str) {
    let saved = RuleSet::parse(saved).unwrap().to_save_text();
    let mut meant = RuleSet::default();
    meant.apply(payload).unwrap();
    assert_eq!(saved, meant.to_save_text(), "{payload}");
}
