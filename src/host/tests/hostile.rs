//! Random replies of the kernel and output of programs: no panic, and nothing read past the end.

use std::time::Duration;

use proptest::prelude::*;

use super::conntrack_bytes::{self, parts, tuple, whole};
use crate::host::iptables::{Finished, Input, restore_result, unprintable};
use crate::host::netlink::nfacct::{Request, read_reply};
use crate::host::netlink::socket::{Attributes, attribute, message, messages, status};
use crate::host::netlink::{ConntrackReply, Deletions, dump_request, replies};
use crate::host::{ProgramExit, RestoreError, Version, excerpt};
use crate::hostile::{bytes, cases, mutated, mutated_text, text};
use crate::net::IpFamily;
use crate::rules::{Backend, Text};

/// Returns datagrams as the kernel encodes them: entries of both families, counters, statuses.
fn datagrams() -> Vec<Vec<u8>> {
    let zone = conntrack_bytes::attribute(18, &[0, 7]);
    let v4 = whole(&[parts(17).concat(), zone.clone()]);
    let (client, vip) = ("[fd00::1]:40000", "[fd00::2]:53");
    let v6 = whole(&[
        tuple(1, 17, client, vip),
        tuple(2, 17, "[fd00::3]:53", client),
        conntrack_bytes::attribute(12, &[1, 2, 3, 4]),
        zone,
    ]);
    let mut counter = Vec::new();
    message(&mut counter, 7 << 8, 0, 0, |bytes| {
        attribute(bytes, 1, b"shop\0");
        attribute(bytes, 2, &7_u64.to_be_bytes());
    });
    let mut error = Vec::new();
    message(&mut error, 2, 0, 0, |bytes| bytes.extend([0xff; 16]));
    let both = [&*v4, &v6, &error].concat();
    let requests = [
        dump_request(IpFamily::V4, None),
        Request::Get.encode("shop").unwrap(),
    ];
    [vec![v4, v6, both, counter, error], requests.to_vec()].concat()
}

fn is_within(part: &[u8], whole: &[u8]) -> bool {
    part.is_empty() || whole.as_ptr_range().contains(&part.as_ptr())
}

/// Messages of the restore programs about lines.
const MESSAGES: [&str; 5] = [
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
    fn no_datagram_is_read_past_its_end(datagram in mutated(datagrams())) {
        for received in messages(&datagram).flatten() {
            prop_assert!(is_within(received.body, &datagram));
            let _ = status(received.body);
            for one in Attributes(received.body.get(4..).unwrap_or_default()) {
                prop_assert!(is_within(one.whole, &datagram) && one.whole.len() == one.value.len() + 4);
            }
        }
        let read = replies(&datagram).count();
        prop_assert!(read <= datagram.len() / 16 + 1, "more messages than fit");
        let mut deletions = Deletions::new(IpFamily::V4);
        for message in replies(&datagram).flatten() {
            if let ConntrackReply::Entry(entry) = message.reply {
                prop_assert!(entry.identity().all(|part| is_within(part, &datagram)));
                deletions.add(&entry);
            }
        }
        // Only whole messages are sent to the kernel.
        prop_assert!(messages(deletions.bytes()).all(|message| message.is_some()));
        let _ = read_reply(&datagram);
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
    fn any_message_of_restore_is_an_error(message in mutated_text(&MESSAGES), code in 1..9_i32) {
        let finished = Finished {
            exit: ProgramExit::Exited(code),
            stdout: Vec::new(),
            stderr: message.clone(),
            input: Input::default(),
            lock_wait: Duration::ZERO,
            process: None,
        };
        let error = restore_result(finished).unwrap_err();
        prop_assert!(!error.to_string().is_empty());
        if let RestoreError::Rejected { line, .. } = error {
            // The excerpt is for the log; the payload may have no such line.
            prop_assert!(excerpt(&mut Text::new("a\nb\nc\n"), line).to_string().len() < 200);
            prop_assert!(message.contains(&line.to_string()));
        }
        let _ = unprintable(&message);
    }

    #[test]
    fn a_parsed_version_is_parsed_again(text in mutated_text(&["iptables v1.8.9 (nf_tables)", "v1.4"])) {
        if let Some(version) = Version::parse(&text) {
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
    fn encoded_counter_names_fit_into_the_kernel(name in text()) {
        if let Ok(bytes) = Request::Create.encode(&name) {
            prop_assert!(bytes.len() <= 20 + 4 + 32);
        }
    }
}
