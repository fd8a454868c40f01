//! Detects resource versions that went back: etcd was restored from an older backup.
//!
//! A server then sends neither events nor bookmarks to a watch that resumes from a version above
//! its own, until the version of the cluster has passed that one, which may take hours. New objects
//! stay unknown meanwhile, and deleted ones stay in use.
//!
//! # Source
//!
//! Differs from upstream: client-go resumes such a watch without a check.
//!
//! KEP: kep.k8s.io/5504 (versions of one kind are comparable as decimal numbers)

/// Decision whether the version that a watch resumes from is compared with the one of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionCheck {
    /// The previous request listed, or the server closed the watch: versions of a server that has
    /// not been restarted do not go back, and a check at each end of a watch would cost the servers
    /// one more request for each watch of each node.
    Skip,
    /// The watch failed or had no event for three minutes: etcd may have been restored since.
    Due,
}

/// Reports whether `version` is lower than `known`. False if one of them is not a plain decimal
/// number above zero, of any length: others are not comparable.
pub(super) fn is_older(version: &str, known: &str) -> bool {
    is_comparable(version)
        && is_comparable(known)
        && (version.len(), version) < (known.len(), known)
}

fn is_comparable(version: &str) -> bool {
    !version.starts_with('0')
        && !version.is_empty()
        && version.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_decimal_numbers_of_any_length() {
        for (version, known, expected) in [
            ("5", "6", true),
            ("9", "10", true),
            ("99999999999999999999998", "99999999999999999999999", true),
            ("6", "6", false),
            ("10", "9", false),
            // None of these is comparable.
            ("", "6", false),
            ("0", "6", false),
            ("05", "6", false),
            ("-5", "6", false),
            ("+5", "6", false),
            ("5a", "6", false),
            ("5", "x6", false),
            ("5", "", false),
        ] {
            assert_eq!(is_older(version, known), expected, "{version} {known}");
        }
    }
}
