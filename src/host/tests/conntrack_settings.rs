//! Tests of `conntrack_settings`.

use super::*;

const NOTHING: ConntrackSettings = ConntrackSettings {
    max_per_core: 0,
    min: 0,
    tcp_established_timeout: Duration::ZERO,
    tcp_close_wait_timeout: Duration::ZERO,
    is_tcp_liberal: false,
    udp_timeout: Duration::ZERO,
    udp_stream_timeout: Duration::ZERO,
};

/// Upstream: pkg/proxy/conntrack/sysctls_test.go, `TestGetConntrackMax` (v1.37)
#[test]
fn conntrack_max_scales_with_cores_between_two_limits() {
    let most = |max_per_core, min, processors| {
        let settings = ConntrackSettings {
            max_per_core,
            min,
            ..NOTHING
        };
        settings.most_entries(processors)
    };
    assert_eq!(most(0, 0, 4), 0);
    assert_eq!(most(0, 131_072, 4), 0);
    assert_eq!(most(32_768, 131_072, 2), 131_072);
    assert_eq!(most(32_768, 131_072, 8), 262_144);
    assert_eq!(most(32_768, 0, 32), 1_048_576);
    assert_eq!(most(32_768, 131_072, 33), 1_048_576);
    assert_eq!(most(32_768, 2_000_000, 33), 1_048_576);
    assert_eq!(most(32_768, 2_000_000, 32), 2_000_000);
    assert_eq!(most(u32::MAX, 0, 2), 1_048_576);
}

#[test]
fn zero_leaves_sysctls_unchanged_and_the_maximum_is_written_first() {
    assert_eq!(NOTHING.desired_sysctls(4), []);
    let all = ConntrackSettings {
        max_per_core: 10,
        min: 99,
        tcp_established_timeout: Duration::from_secs(86_400),
        tcp_close_wait_timeout: Duration::from_millis(3_600_900),
        is_tcp_liberal: true,
        udp_timeout: Duration::from_secs(30),
        udp_stream_timeout: Duration::from_secs(180),
    };
    let desired: Vec<_> = all
        .desired_sysctls(4)
        .iter()
        .map(|one| (one.name.trim_start_matches("net/netfilter/"), one.value))
        .collect();
    assert_eq!(
        desired,
        [
            ("nf_conntrack_max", 99),
            ("nf_conntrack_buckets", 24),
            ("nf_conntrack_tcp_timeout_established", 86_400),
            ("nf_conntrack_tcp_timeout_close_wait", 3600),
            ("nf_conntrack_tcp_be_liberal", 1),
            ("nf_conntrack_udp_timeout", 30),
            ("nf_conntrack_udp_timeout_stream", 180),
        ]
    );
}

#[test]
fn the_maximum_and_the_buckets_are_only_raised() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    std::fs::create_dir_all(path("net/netfilter")).unwrap();
    let set = |name, text: &str| std::fs::write(path(name), text).unwrap();
    let settings = ConntrackSettings {
        max_per_core: 100,
        ..NOTHING
    };
    let sysctls = Sysctls::new(root.path());
    let apply = || -> Vec<String> {
        let desired = settings.desired_sysctls(4).into_iter();
        let written = desired.filter_map(|one| one.apply(&sysctls).unwrap());
        written.map(|written| written.to_string()).collect()
    };
    set(CONNTRACK_MAX, "399\n");
    set(CONNTRACK_BUCKETS, "99\n");
    assert_eq!(
        apply(),
        [
            "net/netfilter/nf_conntrack_max: 399 -> 400",
            "net/netfilter/nf_conntrack_buckets: 99 -> 100",
        ]
    );
    assert_eq!(apply(), [""; 0]);
    set(CONNTRACK_MAX, "500\n");
    set(CONNTRACK_BUCKETS, "4096\n");
    assert_eq!(apply(), [""; 0]);
    std::fs::remove_file(path(CONNTRACK_BUCKETS)).unwrap();
    let error = settings.desired_sysctls(4)[1].apply(&sysctls).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sysctl `net/netfilter/nf_conntrack_buckets` does not exist\nhint: run `modprobe \
         nf_conntrack`"
    );
}

#[test]
fn online_cpus_are_counted_in_ranges() {
    assert_eq!(length("0"), Some(1));
    assert_eq!(length("0-3,5,8-9"), Some(7));
    assert_eq!(length(""), None);
    assert_eq!(length("3-1"), None);
    assert!(processors() >= 1);
}
