//! Lines of records, and rules of a Service in a payload.

use super::{cause, line, rules_of, write_record};
use crate::config::{HistoryArgs, OutputArg, OutputArgs};
use crate::history::HistoryRecord;
use crate::hostile::{WORDS, acts_on_a_terminal, everywhere};
use crate::status::DriftRecord;

const PAYLOAD: &str = "\
*nat
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]
:KUBE-SVC-CCCCCCCCCCCCCCCC - [0:0]
-A KUBE-SERVICES -m comment --comment \"shop/web:http cluster IP\" -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -m comment --comment \"shop/web-2:http cluster IP\" -j KUBE-SVC-CCCCCCCCCCCCCCCC
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-BBBBBBBBBBBBBBBB
-A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -j DNAT --to-destination 10.4.0.1:80
COMMIT
";

#[test]
fn rules_of_a_service_are_found_by_name_and_chain() {
    let numbers: Vec<usize> = rules_of(PAYLOAD, "shop/web")
        .into_iter()
        .map(|rule| PAYLOAD.lines().position(|line| line == rule).unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 4, 6, 7]);
    assert_eq!(rules_of(PAYLOAD, "shop/we"), Vec::<&str>::new());
    assert_eq!(rules_of(PAYLOAD, "hop/web"), Vec::<&str>::new());
}

#[test]
fn a_record_is_one_line_and_harmless_to_a_terminal() {
    for text in WORDS {
        let record = everywhere(&full_record(), text);
        for format in [OutputArg::Text, OutputArg::Json] {
            let args = HistoryArgs {
                service: None,
                state_dir: "/".into(),
                since: None,
                output: OutputArgs { format },
            };
            let mut out = Vec::new();
            write_record(&mut out, &record, &args).unwrap();
            let shown = String::from_utf8(out).unwrap();
            assert!(!acts_on_a_terminal(&shown), "{text:?}: {shown:?}");
            assert_eq!(shown.matches('\n').count(), 1, "{text:?}: {shown:?}");
        }
    }
}

fn full_record() -> HistoryRecord {
    HistoryRecord {
        family: "IPv4".to_owned(),
        scope: "full".to_owned(),
        reason: "flushed".to_owned(),
        took_ms: 1.25,
        bytes: 345,
        services: ["a/a", "a/b", "a/c", "a/d"].map(str::to_owned).into(),
        service_count: 7,
        error: "no".to_owned(),
        drift: vec![DriftRecord {
            names: "KUBE-SERVICES".to_owned(),
            program: "ufw (7)".to_owned(),
            ..DriftRecord::default()
        }],
        ..HistoryRecord::default()
    }
}

#[test]
fn a_line_has_cause_drift_and_error() {
    assert_eq!(
        line(&full_record()),
        "1970-01-01T00:00:00.000Z  IPv4  full           1.2 ms       345 B  flushed, a/a, a/b, a/c, \
         4 more; changed by ufw (7): KUBE-SERVICES; failed: no"
    );
    assert_eq!(cause(&HistoryRecord::default()), "no Service changed");
}
