//! Tests of `net`.

use super::*;

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
