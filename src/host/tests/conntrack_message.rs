//! Requests, byte by byte, as they stand in the memory of a little-endian machine.

use super::*;

/// Bytes from groups of hexadecimal digits; what is behind `#` is for the reader.
fn bytes(text: &str) -> Vec<u8> {
    let codes = text.lines().flat_map(|line| {
        let code = line.split('#').next().unwrap_or_default();
        code.chars().filter(|c| !c.is_whitespace())
    });
    let digits: Vec<_> = codes.map(|c| c.to_digit(16).unwrap()).collect();
    let pairs = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]);
    pairs.map(|byte| u8::try_from(byte).unwrap()).collect()
}

#[track_caller]
fn check(actual: &[u8], expected: &str) {
    if cfg!(target_endian = "little") {
        assert_eq!(actual, bytes(expected), "{actual:02x?}");
    }
}

#[test]
fn everything_is_asked_for() {
    check(
        &dump(IpFamily::V4, None),
        "14000000 0101 0103 00000000 00000000  # length, GET, REQUEST|DUMP, sequence, port
         02000000                              # AF_INET",
    );
}

#[test]
fn udp_is_asked_for() {
    check(
        &dump(IpFamily::V6, Some(Filter::Everything)),
        "38000000 0101 0103 00000000 00000000
         0a000000             # AF_INET6
         1000 0180            # CTA_TUPLE_ORIG
           0c00 0280          #   CTA_TUPLE_PROTO
             0500 0100 11 000000  # CTA_PROTO_NUM 17
         1400 1980            # CTA_FILTER
           0800 0100 08000000 #   compare the original's protocol
           0800 0200 00000000 #   and nothing of the reply",
    );
}

#[test]
fn an_address_and_its_port_are_asked_for() {
    let to = Filter::To("10.96.0.10:53".parse().unwrap());
    check(
        &dump(IpFamily::V4, Some(to)),
        "4c000000 0101 0103 00000000 00000000
         02000000
         2400 0180
           0c00 0180              # CTA_TUPLE_IP
             0800 0200 0a60000a   #   CTA_IP_V4_DST
           1400 0280
             0500 0100 11 000000
             0600 0300 0035 0000  # CTA_PROTO_DST_PORT
         1400 1980
           0800 0100 2a000000     # destination, its port, protocol
           0800 0200 00000000",
    );
}

#[test]
fn a_port_is_asked_for_also_in_place_of_an_ipv6_address() {
    let port = Filter::ToPort(30053.try_into().unwrap());
    let v6 = Filter::To("[fd00::a]:30053".parse().unwrap());
    for filter in [port, v6] {
        check(
            &dump(IpFamily::V6, Some(filter)),
            "40000000 0101 0103 00000000 00000000
             0a000000
             1800 0180
               1400 0280
                 0500 0100 11 000000
                 0600 0300 7565 0000
             1400 1980
               0800 0100 28000000  # destination port and protocol
               0800 0200 00000000",
        );
    }
}
