//! `/debug/pprof/profile`: who used the processor, as `go tool pprof` reads it.
//!
//! Apart from [`cpu_times`](super::cpu_times), which knows who it was: this is about the format.
//!
//! # Source
//!
//! Format: github.com/google/pprof, `proto/profile.proto`; RFC 1952 (gzip)
//!
//! Differs from upstream: that tells functions, this threads, user mode from kernel mode, and
//! programs that were run. Functions would take a signal handler that walks stacks, see
//! [`debug`](super::debug).

use std::time::Duration;

use prost::Message;

use super::cpu_times::{CpuTimes, Mode, TICK_NANOSECONDS, User};

/// The longest part of a gzip file that is not compressed, in bytes.
const LONGEST_BLOCK: usize = u16::MAX as usize;

#[derive(Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

/// A kind of number and its unit, both places in the table of strings.
#[derive(Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Message)]
struct Sample {
    /// From the innermost outwards.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
}

impl Profile {
    /// Without samples.
    fn new(began: i64, took: Duration) -> Self {
        let mut profile = Self {
            // The first one is always empty.
            string_table: vec![String::new()],
            time_nanos: began,
            duration_nanos: i64::try_from(took.as_nanos()).unwrap_or(i64::MAX),
            period: TICK_NANOSECONDS,
            ..Self::default()
        };
        let samples = profile.value_type("samples", "count");
        let cpu = profile.value_type("cpu", "nanoseconds");
        profile.period_type = Some(ValueType { ..cpu });
        profile.sample_type = vec![samples, cpu];
        profile
    }

    fn add(&mut self, user: &User, ticks: i64) {
        let mode = match user.mode {
            Mode::User => "in user mode",
            Mode::Kernel => "in the kernel",
        };
        let inner = self.location(&format!("{} ({mode})", user.name));
        let outer = self.location(&user.name);
        self.sample.push(Sample {
            location_id: vec![inner, outer],
            value: vec![ticks, ticks.saturating_mul(TICK_NANOSECONDS)],
        });
    }

    /// The only place of a function of that name. Names and their numbers are the same for both.
    fn location(&mut self, name: &str) -> u64 {
        let name = self.string(name);
        if let Some(function) = self.function.iter().find(|function| function.name == name) {
            return function.id;
        }
        let id = self.function.len() as u64 + 1;
        self.function.push(Function { id, name });
        let line = vec![Line { function_id: id }];
        self.location.push(Location { id, line });
        id
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        let (kind, unit) = (self.string(kind), self.string(unit));
        ValueType { kind, unit }
    }

    fn string(&mut self, text: &str) -> i64 {
        let place = self.string_table.iter().position(|known| known == text);
        let place = place.unwrap_or_else(|| {
            self.string_table.push(text.to_owned());
            self.string_table.len() - 1
        });
        // There are a handful.
        i64::try_from(place).unwrap_or_default()
    }
}

/// The file of a profile that began then, in nanoseconds since 1970.
pub(super) fn file(before: &CpuTimes, after: &CpuTimes, began: i64, took: Duration) -> Vec<u8> {
    let mut profile = Profile::new(began, took);
    for (user, ticks) in after.since(before) {
        profile.add(&user, ticks);
    }
    gzip(&profile.encode_to_vec())
}

/// A gzip file of some hundred bytes, which are not worth compressing.
fn gzip(content: &[u8]) -> Vec<u8> {
    // Deflate, no name, no time, no particular level, from Unix.
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    for block in content.chunks(LONGEST_BLOCK) {
        // No block is longer, so that nothing is lost.
        let length = u16::try_from(block.len()).unwrap_or_default();
        file.push(0);
        file.extend(length.to_le_bytes());
        file.extend((!length).to_le_bytes());
        file.extend(block);
    }
    // The last one is empty.
    file.extend([1, 0, 0, 0xff, 0xff]);
    file.extend(crc32(content).to_le_bytes());
    // Modulo 2^32, says the format.
    #[expect(clippy::cast_possible_truncation, reason = "says the format")]
    file.extend((content.len() as u32).to_le_bytes());
    file
}

fn crc32(content: &[u8]) -> u32 {
    let step = |sum: u32| (sum >> 1) ^ (0xedb8_8320 * (sum & 1));
    let each = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum));
    !content.iter().fold(u32::MAX, each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_gzip_s() {
        // The check value that every list of such sums has.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn samples_point_to_names() {
        let mut profile = Profile::new(5, Duration::from_secs(2));
        for (mode, ticks) in [(Mode::User, 7), (Mode::Kernel, 1)] {
            let name = "pages".to_owned();
            profile.add(&User { name, mode }, ticks);
        }
        let profile = Profile::decode(profile.encode_to_vec().as_slice()).unwrap();
        let name = |id: &u64| {
            let location = profile.location.iter().find(|location| location.id == *id);
            let id = location.unwrap().line[0].function_id;
            let function = profile.function.iter().find(|function| function.id == id);
            profile.string_table[usize::try_from(function.unwrap().name).unwrap()].as_str()
        };
        let samples: Vec<_> = profile
            .sample
            .iter()
            .map(|sample| {
                let names: Vec<_> = sample.location_id.iter().map(name).collect();
                (names, sample.value.as_slice())
            })
            .collect();
        assert_eq!(
            samples,
            [
                (
                    vec!["pages (in user mode)", "pages"],
                    [7, 70_000_000].as_slice()
                ),
                (
                    vec!["pages (in the kernel)", "pages"],
                    [1, 10_000_000].as_slice()
                ),
            ]
        );
        assert_eq!(profile.duration_nanos, 2_000_000_000);
        assert_eq!(profile.string_table[0], "");
    }
}
