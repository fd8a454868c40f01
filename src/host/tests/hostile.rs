//! Whatever the kernel or a program answers: no panic, nothing read behind the end, nothing made
//! up.

use std::time::Duration;

use proptest::prelude::*;

use crate::host::conntrack_answer::{Answer, answers};
use crate::host::conntrack_message::{Deletions, dump};
use crate::host::netlink::{Attributes, attribute, message, messages, nested, status};
use crate::host::nfacct_message::{self, Request, request};
use crate::host::process::{Fed, Finished};
use crate::host::restore_error::outcome;
use crate::host::run_error::unprintable;
use crate::host::{Ending, RestoreError, Version, excerpt};
use crate::hostile::{bytes, cases, mutated, mutated_text, text};
use crate::net::IpFamily;
use crate::rules::{Backend, Text};

/// One direction of a UDP flow.
fn tuple(bytes: &mut Vec<u8>, family: u8, ips: &[Vec<u8>; 2]) {
    nested(bytes, 1, |bytes| {
        let first = if family == 2 { 1 } else { 3 };
        attribute(bytes, first, &ips[0]);
        attribute(bytes, first + 1, &ips[1]);
    });
    nested(bytes, 2, |bytes| {
        attribute(bytes, 1, &[17]);
        attribute(bytes, 2, &[0x9c, 0x40]);
        attribute(bytes, 3, &[0, 53]);
    });
}

fn entry(family: u8, ips: &[Vec<u8>; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(&mut bytes, 0x100, 2, family, |bytes| {
        nested(bytes, 1, |bytes| tuple(bytes, family, ips));
        nested(bytes, 2, |bytes| tuple(bytes, family, ips));
        attribute(bytes, 12, &[1, 2, 3, 4]);
        attribute(bytes, 18, &[0, 7]);
    });
    bytes
}

/// Datagrams as the kernel writes them: entries of both families, counters, statuses.
fn datagrams() -> Vec<Vec<u8>> {
    let v4 = entry(2, &[vec![10, 0, 0, 1], vec![10, 0, 0, 2]]);
    let v6 = entry(10, &[vec![0xfd; 16], vec![0xfe; 16]]);
    let mut counter = Vec::new();
    message(&mut counter, 7 << 8, 0, 0, |bytes| {
        attribute(bytes, 1, b"shop\0");
        attribute(bytes, 2, &7_u64.to_be_bytes());
    });
    let mut refusal = Vec::new();
    message(&mut refusal, 2, 0, 0, |bytes| bytes.extend([0xff; 16]));
    let both = [&*v4, &v6, &refusal].concat();
    let asked = [
        dump(IpFamily::V4, None),
        request(Request::Get, "shop").unwrap(),
    ];
    [vec![v4, v6, both, counter, refusal], asked.to_vec()].concat()
}

fn within(part: &[u8], whole: &[u8]) -> bool {
    part.is_empty() || whole.as_ptr_range().contains(&part.as_ptr())
}

/// What the restore programs say of lines.
const SAID: [&str; 5] = [
    "iptables-nft-restore v1.8.9 (nf_tables): Chain 'NOSUCH' does not exist\n\
     Error occurred at line: 4\nTry `iptables-nft-restore -h' for more information.\n",
    "iptables-restore: line 3 failed.\n",
    "Another app is currently holding the xtables lock. Stopped waiting after 5s.\n",
    "iptables-restore: COMMIT expected at line 7\n",
    "line 8: RULE_APPEND failed (Invalid argument): rule in chain KUBE-N\n",
];

proptest! {
    #![proptest_config(cases(5000))]

    #[test]
    fn any_datagram_of_netlink_is_read_within_it(datagram in mutated(datagrams())) {
        for received in messages(&datagram).flatten() {
            prop_assert!(within(received.body, &datagram));
            let _ = status(received.body);
            for one in Attributes(received.body.get(4..).unwrap_or_default()) {
                prop_assert!(within(one.whole, &datagram) && one.whole.len() == one.value.len() + 4);
            }
        }
        let read = answers(&datagram).count();
        prop_assert!(read <= datagram.len() / 16 + 1, "more messages than there is room for");
        let mut deletions = Deletions::new(IpFamily::V4);
        for message in answers(&datagram).flatten() {
            if let Answer::Entry(entry) = message.said {
                prop_assert!(entry.identity().all(|part| within(part, &datagram)));
                deletions.add(&entry);
            }
        }
        // What is sent to the kernel is whole messages.
        prop_assert!(messages(deletions.bytes()).all(|message| message.is_some()));
        let _ = nfacct_message::answer(&datagram);
    }

    #[test]
    fn attributes_are_read_as_they_were_written(kind in 0..0x4000_u16, value in bytes()) {
        let mut written = Vec::new();
        attribute(&mut written, kind, &value);
        attribute(&mut written, 1, b"next");
        let read: Vec<_> = Attributes(&written).map(|one| (one.kind, one.value.to_vec())).collect();
        prop_assert_eq!(read, [(kind, value), (1, b"next".to_vec())]);
    }

    #[test]
    fn any_complaint_of_restore_is_an_error(said in mutated_text(&SAID), code in 1..9_i32) {
        let finished = Finished {
            ending: Ending::Exited(code),
            stdout: Vec::new(),
            stderr: said.clone(),
            fed: Fed::default(),
            lock_wait: Duration::ZERO,
            process: None,
        };
        let error = outcome(finished).unwrap_err();
        prop_assert!(!error.to_string().is_empty());
        if let RestoreError::Refused { line, .. } = error {
            // The operator is shown the line, if the payload has one of that number.
            prop_assert!(excerpt(&mut Text::new("a\nb\nc\n"), line).to_string().len() < 200);
            prop_assert!(said.contains(&line.to_string()));
        }
        let _ = unprintable(&said);
    }

    #[test]
    fn any_version_is_one_or_none(said in mutated_text(&["iptables v1.8.9 (nf_tables)", "v1.4"])) {
        if let Some(version) = Version::parse(&said) {
            let (major, minor, patch) = version.number;
            let backend = match version.backend {
                Backend::Nft => "nf_tables",
                Backend::Legacy => "legacy",
            };
            let again = Version::parse(&format!("iptables v{major}.{minor}.{patch} ({backend})"));
            prop_assert_eq!(again, Some(version));
        }
    }

    #[test]
    fn counters_have_names_that_fit(name in text()) {
        if let Ok(bytes) = request(Request::Create, &name) {
            prop_assert!(bytes.len() <= 20 + 4 + 32);
        }
    }
}
