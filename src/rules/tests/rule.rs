//! Tests of the normal form of rules: spellings that must compare equal, and some that must not.
//!
//! Every pair was seen as input and output of `iptables-nft` and `iptables-legacy` 1.8.9.

use crate::rules::{Rule, RulesDigest};

fn rule(spec: &str) -> Rule {
    spec.parse().unwrap_or_else(|e| panic!("{spec}: {e}"))
}

/// Checks that `written` and `saved` are equal rules with one digest, and print as `canonical`.
#[track_caller]
fn check(written: &str, saved: &str, canonical: &str) {
    assert_eq!(rule(written), rule(saved), "{written}");
    let digest = |rule: &str| RulesDigest::of_lines(&format!("-A X {rule}\n"));
    assert!(digest(written).is_same(digest(saved)), "{written}");
    assert_eq!(rule(written).to_string(), canonical);
    assert_eq!(rule(canonical), rule(written), "{canonical}");
}

/// Checks lines of a spelling and, after `=>`, the canonical form that both backends print.
#[track_caller]
fn same(pairs: &str) {
    for pair in pairs.lines().filter(|pair| !pair.is_empty()) {
        let (written, saved) = pair.split_once("=>").unwrap();
        let saved = saved.trim_start();
        check(written.trim_end(), saved, saved);
    }
}

#[test]
fn order_of_options_and_spelling_of_addresses_do_not_matter() {
    let saved = r#"! -s 10.0.0.0/8 -d 172.30.0.1/32 -p tcp -m comment --comment "ns1/a:p80 cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ"#;
    check(
        r#"-m comment --comment "ns1/a:p80 cluster IP" -m tcp -p tcp -d 172.30.0.1 --dport 80 ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ"#,
        saved,
        saved,
    );
    check("", "", "");
    same(
        r"
-s 10.1.2.3/255.255.0.0 -j DROP                 => -s 10.1.0.0/16 -j DROP
-p all -s 0.0.0.0/0 -i + -j ACCEPT              => -j ACCEPT
-m tcp -p tcp -d FD00:0::1 --dport 80 -j ACCEPT => -d fd00::1/128 -p tcp -m tcp --dport 80 -j ACCEPT
-p tcp --dport 80                               => -p tcp -m tcp --dport 80
-p 132 -m sctp --destination-port 5:            => -p sctp -m sctp --dport 5:65535
[12:3400] -i eth0 ! -o cali+ -g X               => -i eth0 ! -o cali+ -g X
-p 47 -f -j ACCEPT                              => -p gre -f -j ACCEPT
-p udp --sport 53 ! --dport :1024               => -p udp -m udp --sport 53 --dport 1025:65535
-p TCP --dport 0:65535                          => -p tcp -m tcp
-j DROP -s 1.2.3.4                              => -s 1.2.3.4/32 -j DROP
",
    );
}

#[test]
fn spellings_of_mark_are_equal() {
    same(
        r"
-j MARK --or-mark 0x00004000           => -j MARK --set-xmark 0x4000/0x4000
-j MARK --xor-mark 0x4000              => -j MARK --set-xmark 0x4000/0x0
-j MARK --and-mark 0x4000              => -j MARK --set-xmark 0x0/0xffffbfff
-j MARK --set-mark 0x5000/0x4000       => -j MARK --set-xmark 0x5000/0x5000
-j MARK --set-xmark 16384              => -j MARK --set-xmark 0x4000/0xffffffff
-m mark ! --mark 0x00004000/0x00004000 => -m mark ! --mark 0x4000/0x4000
-m mark --mark 0x4000/0xffffffff       => -m mark --mark 0x4000
",
    );
}

#[test]
fn probabilities_compare_as_the_kernel_stores_them() {
    for (written, saved) in [
        ("0.3333333333", "0.33333333349"),
        ("0.5000000000", "0.50000000000"),
        ("0.1428571429", "0.14285714272"),
        ("0.0010000000", "0.00100000016"),
    ] {
        let [written, saved] = [written, saved]
            .map(|text| format!("-m statistic --mode random --probability {text} -j A"));
        check(&written, &saved, &saved);
    }
    assert_ne!(
        rule("-m statistic --mode random --probability 0.33333"),
        rule("-m statistic --mode random --probability 0.33334"),
    );
}

#[test]
fn defaults_of_either_family_are_equal_to_no_option() {
    for with in ["icmp-port-unreachable", "icmp6-port-unreachable"] {
        check(
            "-j REJECT",
            &format!("-j REJECT --reject-with {with}"),
            "-j REJECT",
        );
    }
    for mask in ["255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
        check(
            "-m recent --name KUBE-SEP-A --rcheck --seconds 10800 --reap -j KUBE-SEP-A",
            &format!(
                "-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask {mask} --rsource -j KUBE-SEP-A"
            ),
            "-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A -j KUBE-SEP-A",
        );
    }
    assert_ne!(rule("-j REJECT"), rule("-j REJECT --reject-with tcp-reset"));
}

#[test]
fn lists_of_states_and_types_compare_as_sets() {
    same(
        r"
-p icmp -m comment --comment x --icmp-type 8    => -p icmp -m comment --comment x -m icmp --icmp-type 8
-m conntrack --ctstate DNAT,NEW,RELATED,INVALID => -m conntrack --ctstate INVALID,NEW,RELATED,DNAT
-m addrtype --dst-type LOCAL,UNICAST            => -m addrtype --dst-type UNICAST,LOCAL
-m comment --comment one -m mark --mark 1 -m comment --comment two => -m comment --comment one -m comment --comment two -m mark --mark 0x1
",
    );
    assert_ne!(
        rule("-m conntrack --ctstate NEW"),
        rule("-m conntrack ! --ctstate NEW")
    );
}

#[test]
fn dnat_and_masquerade_are_parsed() {
    same(
        r"
-j MASQUERADE --random-fully                       => -j MASQUERADE --random-fully
-m tcp -p tcp -j DNAT --to-destination 10.0.0.1:80 => -p tcp -m tcp -j DNAT --to-destination 10.0.0.1:80
-p tcp -j DNAT --to-destination [FD00:0::1]:80     => -p tcp -j DNAT --to-destination [fd00::1]:80
-j DNAT --to-destination fd00::1                   => -j DNAT --to-destination fd00::1
",
    );
}

#[test]
fn unsupported_matches_and_targets_are_kept_as_text() {
    for spec in [
        r#"-j LOG --log-prefix "a \"b\" \'c\' \\d ""#,
        "-p tcp -m multiport --dports 80,443 -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
        "-p icmp -m icmp --icmp-type 8 -m limit --limit 5/min -j ACCEPT",
        "-m set --match-set cali40all-ipam-pools src -m set ! --match-set x dst -j SNAT --to-source 1.2.3.4",
        "-m statistic --mode nth --every 3 --packet 1 -j X",
        r#"-m bpf --object-pinned /sys/fs/bpf/x -m comment --comment "cali:Cz_q" -j ACCEPT"#,
        "-m nfacct --nfacct-name localhost_nps_accepted_pkts -j X",
        "-p tcp -j MASQUERADE --to-ports 1024-2000",
        "-m comment --comment --odd -j X",
        r#"-j "x y" --log-uid"#,
        r#"-g "x y""#,
        r#"-i "eth 0" ! -o "x\"" -m recent --set --name "a b" -j "-x""#,
        r#"-j LOG --log-prefix "-x""#,
    ] {
        assert_eq!(rule(spec).to_string(), spec);
    }
}

#[test]
fn malformed_rules_are_rejected() {
    for (spec, reason) in [
        (r#"-m comment --comment "x"#, "unterminated quote"),
        ("-s example.org", "`example.org` is not a valid address"),
        ("-s", "`-s` requires a value"),
        ("DROP", "unexpected `DROP`"),
        ("-j DROP !", "unexpected `!`"),
        ("-j DROP ACCEPT", "unexpected `ACCEPT`"),
    ] {
        let shown = spec.parse::<Rule>().map_err(|e| e.to_string());
        assert_eq!(shown, Err(reason.to_owned()), "{spec}");
    }
}
