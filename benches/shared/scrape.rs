//! The metrics that both programs have under the same names.

use std::ops::Sub;

use crate::support::http;

/// Sum and count of a histogram of seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timed {
    pub sum: f64,
    pub count: f64,
}

impl Timed {
    /// In seconds; nothing if nothing was timed.
    pub fn mean(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Sub for Timed {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            sum: self.sum - earlier.sum,
            count: self.count - earlier.count,
        }
    }
}

/// One scrape, IPv4 only but for [`Sample::is_synced`]: the Services have that family.
#[derive(Debug, Clone)]
pub struct Sample {
    pub sync: Timed,
    pub full: Timed,
    pub partial: Timed,
    pub programming: Timed,
    synced_families: usize,
}

impl Sample {
    /// Reads it from the text of `/metrics`.
    pub fn of(page: &str) -> Self {
        let timed = |name: &str| Timed {
            sum: value(page, &format!("kubeproxy_{name}_duration_seconds_sum")),
            count: value(page, &format!("kubeproxy_{name}_duration_seconds_count")),
        };
        let stamps = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{";
        let synced = |line: &&str| line.starts_with(stamps) && !line.ends_with(" 0");
        Self {
            sync: timed("sync_proxy_rules"),
            full: timed("sync_full_proxy_rules"),
            partial: timed("sync_partial_proxy_rules"),
            programming: timed("network_programming"),
            synced_families: page.lines().filter(synced).count(),
        }
    }

    /// Whether both families have been synced.
    pub fn is_synced(&self) -> bool {
        self.synced_families == 2
    }
}

fn value(page: &str, name: &str) -> f64 {
    http::value(page, &format!("{name}{{ip_family=\"IPv4\"}}")).unwrap_or_default()
}
