//! The parts of objects: as they are written, and what of it a proxy may use.
//!
//! What is valid stands here as data: the tests would find nothing if they called the code under
//! test.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::support::hostile::text;

/// What was written, and the same spelled as the API server would have it; `None`: unusable.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) written: Value,
    pub(crate) meant: Option<Value>,
}

impl Piece {
    pub(crate) fn new(written: impl Into<Value>, meant: Option<Value>) -> Self {
        Self {
            written: written.into(),
            meant,
        }
    }

    pub(crate) fn same(written: impl Into<Value>) -> Self {
        let written = written.into();
        Self {
            meant: Some(written.clone()),
            written,
        }
    }
}

/// Names that the rules may hold: those of the API, and what does no harm besides.
pub(crate) fn is_sound(name: &str) -> bool {
    let mut letters = name.chars();
    name.len() <= 63
        && letters
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
        && letters.all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

/// A name, usable two times out of three. `ending` keeps apart those of several objects.
pub(crate) fn name(ending: &'static str) -> impl Strategy<Value = Piece> {
    let good = select(vec!["a", "cart", "0", "a.b_C-d", "xn--80ak6aa92e"]);
    let good = good.prop_map(move |name| Piece::same(format!("{name}{ending}")));
    let longest = Just(Piece::same("n".repeat(63 - ending.len()) + ending));
    let too_long = Just(Piece::new("n".repeat(64), None));
    let odd = select(vec![
        "-t", "--table", "-j", "-", ".", "a\u{0}", "a b", "a\"", "a/b", "a:b", "",
    ]);
    let odd = odd.prop_map(|name| Piece::new(name, None));
    let bad = text().prop_map(|text| {
        let is_sound = is_sound(&text);
        Piece::new(text.clone(), is_sound.then(|| text.into()))
    });
    prop_oneof![6 => good, 2 => longest, 1 => too_long, 1 => odd, 2 => bad]
}

/// Spellings of addresses that others may be sent to, and the one that rules have.
const ADDRESSES: &[(&str, &str)] = &[
    ("10.96.0.7", "10.96.0.7"),
    ("010.096.000.0007", "10.96.0.7"),
    ("::ffff:10.96.0.8", "10.96.0.8"),
    ("0:0:0:0:0:FFFF:0a60:0009", "10.96.0.9"),
    ("255.255.255.255", "255.255.255.255"),
    ("224.0.1.1", "224.0.1.1"),
    ("fd00::7", "fd00::7"),
    ("FD00:0000:0:0:0:0:0:0008", "fd00::8"),
    ("fd00::10.0.0.1", "fd00::a00:1"),
    (
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ),
];

/// Those that mean the node itself, or nothing.
const SPECIAL: &[&str] = &[
    "0.0.0.0",
    "127.0.0.1",
    "127.1.2.3",
    "169.254.169.254",
    "224.0.0.1",
    "::",
    "::1",
    "fe80::1",
    "ff02::1",
    "::ffff:127.0.0.1",
];

/// What looks like an address.
const NO_ADDRESSES: &[&str] = &[
    "",
    " ",
    "10.96.0.7 ",
    " 10.96.0.7",
    "10.96.0.7\n",
    "10.96.0.7\0",
    "10.96.0.7/32",
    "10.96.0.256",
    "10.96.7",
    "0x0a.0.0.1",
    "167772161",
    "10.96.0.7:80",
    "[fd00::7]",
    "fd00::7%eth0",
    "fd00:::7",
    "10.96.0.7 -j ACCEPT",
    "10.96.0.7,10.96.0.8",
    "!10.96.0.7",
    "１０.96.0.7",
    "localhost",
    "10.96.0.7\n-A INPUT -j ACCEPT",
    "fd00::7\" -j ACCEPT",
    "10..0.1",
    "10.0.0.+1",
    "None ",
];

/// Where traffic may be sent, or come in.
pub(crate) fn address() -> impl Strategy<Value = Piece> {
    let good = select(ADDRESSES).prop_map(|(text, meant)| Piece::new(text, Some(meant.into())));
    let any_v4 = (1..224_u8, any::<[u8; 3]>()).prop_map(|(first, rest)| {
        let ip = std::net::Ipv4Addr::new(first, rest[0], rest[1], rest[2]);
        let is_special = first == 127 || (first == 169 && rest[0] == 254);
        Piece::new(ip.to_string(), (!is_special).then(|| ip.to_string().into()))
    });
    prop_oneof![6 => good, 2 => any_v4, 1 => special(), 3 => no_address()]
}

fn special() -> impl Strategy<Value = Piece> {
    select(SPECIAL).prop_map(|text| Piece::new(text, None))
}

fn no_address() -> impl Strategy<Value = Piece> {
    let chance = text().prop_filter("an address", |text| {
        text.parse::<std::net::IpAddr>().is_err()
    });
    let chance = chance.prop_filter("with zeros", |text| !text.starts_with('0'));
    prop_oneof![select(NO_ADDRESSES).prop_map(str::to_owned), chance]
        .prop_map(|text| Piece::new(text, None))
}

/// A cluster IP, which the API takes from its own range and does not look at any more.
pub(crate) fn cluster_ip() -> impl Strategy<Value = Piece> {
    let good = select(ADDRESSES).prop_map(|(text, meant)| Piece::new(text, Some(meant.into())));
    let none = Just(Piece::new("None", None));
    prop_oneof![6 => good, 1 => none, 2 => no_address()]
}

/// Clients of a load balancer.
pub(crate) fn network() -> impl Strategy<Value = Piece> {
    let good = select(vec![
        ("10.1.2.3/8", "10.0.0.0/8"),
        (" 203.0.113.0/25\n", "203.0.113.0/25"),
        ("010.0.0.0/08", "10.0.0.0/8"),
        ("198.51.100.7/32", "198.51.100.7/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8::1/32", "2001:db8::/32"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::/0", "::/0"),
    ]);
    let good = good.prop_map(|(text, meant)| Piece::new(text, Some(meant.into())));
    let bad = select(vec![
        "10.0.0.0",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/8/8",
        "/8",
        "fd00::/129",
        "10.0.0.0/+8",
        "10.0.0.0/8 -j ACCEPT",
        "10.0.0.0/8\n-A INPUT -j ACCEPT",
        "! 10.0.0.0/8",
        "10.0.0.0/8,::/0",
        "10.0.0.0/255.0.0.0",
        "0.0.0.0/",
        "10.0.0.0 /8",
        "",
    ]);
    let bad = bad.prop_map(|text| Piece::new(text, None));
    prop_oneof![4 => good, 2 => bad]
}

/// The number of a port.
pub(crate) fn number() -> impl Strategy<Value = Piece> {
    let good = prop_oneof![select(vec![1_i64, 80, 65535]), 1..65536_i64].prop_map(Piece::same);
    let bad = prop_oneof![
        select(vec![
            0,
            -1,
            65536,
            65536 + 80,
            1 << 32,
            (1 << 32) + 80,
            i64::MAX,
            i64::MIN
        ]),
        any::<i64>().prop_filter("a port", |number| !(1..65536).contains(number)),
    ];
    let bad = bad.prop_map(|number| Piece::new(number, None));
    prop_oneof![4 => good, 1 => bad]
}

/// A protocol.
pub(crate) fn protocol() -> impl Strategy<Value = Piece> {
    let good = select(vec!["TCP", "UDP", "SCTP"]).prop_map(Piece::same);
    let absent = Just(Piece::new("", Some(json!("TCP"))));
    let bad = prop_oneof![
        select(vec![
            "tcp",
            "ICMP",
            "all",
            "6",
            "TCP ",
            "TCP\n",
            "tcp -j ACCEPT"
        ])
        .prop_map(str::to_owned),
        text().prop_filter("absent", |text| !text.is_empty()),
    ];
    let bad = bad.prop_map(|text| Piece::new(text, None));
    prop_oneof![5 => good, 1 => absent, 1 => bad]
}

/// One of a few words of the API; any other means the last of them.
pub(crate) fn word(words: &'static [&'static str]) -> impl Strategy<Value = Piece> {
    let last = words[words.len() - 1];
    let is_other = |text: &String| !text.is_empty() && !words.contains(&text.as_str());
    let other = text().prop_filter("a word", is_other);
    let other = other.prop_map(move |text| Piece::new(text, Some(last.into())));
    prop_oneof![4 => select(words).prop_map(Piece::same), 1 => other]
}
