//! Tests of `binaries`.

use super::*;

#[track_caller]
fn version(text: &str, expected: &str) {
    let shown = Version::parse(text).map(|version| version.to_string());
    assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{text}");
}

#[test]
fn versions_are_parsed() {
    version("iptables v1.8.9 (nf_tables)\n", "1.8.9 (nft)");
    version("ip6tables v1.8.11 (legacy)\n", "1.8.11 (legacy)");
    version("iptables v1.6.1", "1.6.1 (legacy)");
    version("iptables v1.10", "1.10.0 (legacy)");
    version("iptables-restore v1.4.19.1: oops", "1.4.19 (legacy)");
    version("bash: iptables: command not found", "none");
    version("iptables vee", "none");
    version("", "none");
}
