//! Tests of `net`.

use super::*;

#[track_caller]
fn ip(text: &str, expected: &str) {
    let shown = parse_ip(text).map(|ip| ip.to_string());
    assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{text}");
}

#[track_caller]
fn cidr(text: &str, expected: &str) {
    let shown = parse_cidr(text).map(|net| net.to_string());
    assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{text}");
}

#[test]
fn addresses_become_canonical() {
    ip("172.30.0.41", "172.30.0.41");
    ip("172.030.00.041", "172.30.0.41");
    ip("010.0000000.0.1", "10.0.0.1");
    ip("::ffff:10.0.0.1", "10.0.0.1");
    ip("FD00:0:0::5", "fd00::5");
    let texts = "|1.2.3|1.2.3.4.5|256.1.1.1|1.2.3.4 |a.b.c.d|1..2.3|fd00::g";
    for bad in texts.split('|') {
        ip(bad, "none");
    }
}

#[test]
fn special_addresses() {
    let texts = "0.0.0.0|127.0.0.1|127.255.0.9|169.254.169.254|224.0.0.251|::|::1|fe80::1|febf::1|\
                 ff02::1|ff12::1|::ffff:127.0.0.1";
    for special in texts.split('|') {
        assert!(is_unroutable(special.parse().unwrap()), "{special}");
    }
    let texts = "10.0.0.1|128.0.0.1|169.253.0.1|224.0.1.1|255.255.255.255|::2|fd00::1|fec0::1|\
                 ff05::1";
    for other in texts.split('|') {
        assert!(!is_unroutable(other.parse().unwrap()), "{other}");
    }
}

#[test]
fn networks_lose_their_host_bits() {
    cidr("10.1.2.3/8", "10.0.0.0/8");
    cidr("010.01.2.3/08", "10.0.0.0/8");
    cidr("fd00::1/64", "fd00::/64");
    cidr("::ffff:10.1.2.3/104", "10.0.0.0/8");
    for bad in [
        "10.0.0.0",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/-1",
        "/8",
        "10.0.0.0/8/8",
    ] {
        cidr(bad, "none");
    }
}
