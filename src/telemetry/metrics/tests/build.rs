//! Tests of `build`.

use super::*;

fn version(major: u16, minor: u16, patch: u16) -> KubernetesVersion {
    KubernetesVersion {
        major,
        minor,
        patch,
    }
}

#[test]
fn versions_agree() {
    let KubernetesVersion { major, minor, .. } = RELEASE;
    assert_eq!(KUBE_PROXY_MINOR_VERSION, format!("{major}.{minor}"));
    assert_eq!(PREVIOUS_MINOR_VERSION, format!("{major}.{}", minor - 1));
    assert_eq!(format!("v{KUBE_PROXY_VERSION}"), RELEASE.to_string());
}

#[test]
fn the_suffix_of_a_vendor_is_not_part_of_the_version() {
    for (text, expected) in [
        ("v1.36.3", Some(version(1, 36, 3))),
        ("v1.34.2-eks-1b4a2", Some(version(1, 34, 2))),
        ("v1.33.1+k3s1", Some(version(1, 33, 1))),
        ("v1.36.0-alpha.1", Some(version(1, 36, 0))),
        ("1.36.3", None),
        ("v1.36", None),
        ("v1..3", None),
        ("v1.99999.3", None),
        ("v1.x.3", None),
        ("", None),
    ] {
        assert_eq!(KubernetesVersion::parse(text), expected, "{text}");
    }
}
