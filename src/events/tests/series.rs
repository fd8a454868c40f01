//! Repetition over hours, in no time.

use super::*;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

struct Days {
    known: KnownSeries,
    origin: Origin,
}

impl Days {
    fn new() -> Self {
        Self {
            known: KnownSeries::default(),
            origin: Origin {
                node_name: "node1".to_owned(),
                host_name: "host1".to_owned(),
            },
        }
    }

    /// The count that is written when the event of a Service comes: 1 for a new one.
    fn comes(&mut self, name: &str, when: Duration) -> Option<i32> {
        let event = Event::CheckNotServed(ServiceName::new("ns", name), "taken".to_owned());
        let when = SystemTime::UNIX_EPOCH + when;
        let write = self.known.add(&event, &self.origin, when);
        write.as_ref().map(count)
    }

    /// The counts that are written because time has passed.
    fn passes(&mut self, when: Duration) -> Vec<i32> {
        let writes = self.known.expire(SystemTime::UNIX_EPOCH + when);
        writes.iter().map(count).collect()
    }
}

fn count(write: &Write) -> i32 {
    match write.kind {
        WriteKind::New => {
            assert_eq!(write.object.series, None);
            1
        }
        WriteKind::Series => write.object.series.as_ref().unwrap().count,
    }
}

#[test]
fn what_comes_again_is_counted() {
    let mut days = Days::new();
    assert_eq!(days.comes("a", at(0)), Some(1));
    assert_eq!(days.comes("b", at(1)), Some(1));
    assert_eq!(days.comes("a", at(2)), Some(2));
    for second in 3..300 {
        assert_eq!(days.comes("a", at(second)), None);
    }
    assert!(days.passes(at(300)).is_empty());
    // "b" is forgotten without a word, "a" with its last count.
    assert_eq!(days.passes(at(299 + 360)), [299]);
    assert!(days.known.is_empty());
    assert_eq!(days.comes("a", at(700)), Some(1));
}

#[test]
fn what_never_ends_is_written_twice_an_hour() {
    let mut days = Days::new();
    let mut written = Vec::new();
    for minute in 0..=120 {
        let now = at(minute * 60);
        written.extend(days.comes("a", now));
        written.extend(days.passes(now));
    }
    assert_eq!(written, [1, 2, 32, 62, 92]);
}

#[test]
fn a_series_of_two_has_its_last_word_already() {
    let mut days = Days::new();
    assert_eq!(days.comes("a", at(0)), Some(1));
    assert_eq!(days.comes("a", at(1)), Some(2));
    assert!(days.passes(at(1000)).is_empty());
    assert!(days.known.is_empty());
}

#[test]
fn so_many_are_known_and_no_more() {
    let mut days = Days::new();
    for number in 0..=MOST_KNOWN as u64 {
        assert_eq!(days.comes(&number.to_string(), at(number)), Some(1));
    }
    assert_eq!(days.known.0.len(), MOST_KNOWN);
    // The oldest was forgotten.
    assert_eq!(days.comes("1", at(2000)), Some(2));
    assert_eq!(days.comes("0", at(2000)), Some(1));
}
