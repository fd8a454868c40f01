//! Packets that the kernel counts for us, read at each scrape.
//!
//! Apart because nobody here counts them, and because they may be absent: what cannot be read has
//! no sample, as upstream has it.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go`, `nfacctMetricCollector` (v1.36)

use std::collections::HashMap;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::process::counter;

/// Name and HELP.
const INVALID_DROPPED: (&str, &str) = (
    "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
    "[ALPHA] Packets dropped because conntrack could not place them",
);
const LOCALHOST_NODE_PORTS: (&str, &str) = (
    "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
    "[ALPHA] Packets let through to NodePorts on 127.0.0.0/8",
);

/// How to read one count. It is called on the thread that serves scrapes, so it must not wait.
pub type ReadCount = fn() -> Option<u64>;

/// The counts of the kernel.
#[derive(Debug)]
pub struct KernelCounts {
    descs: [Desc; 2],
    reads: [ReadCount; 2],
}

impl KernelCounts {
    /// Reads dropped invalid packets and packets to NodePorts on localhost by these.
    pub fn new(
        invalid_dropped: ReadCount,
        localhost_node_ports: ReadCount,
    ) -> prometheus::Result<Self> {
        let desc = |(name, help): (&str, &str)| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new())
        };
        Ok(Self {
            descs: [desc(INVALID_DROPPED)?, desc(LOCALHOST_NODE_PORTS)?],
            reads: [invalid_dropped, localhost_node_ports],
        })
    }
}

impl Collector for KernelCounts {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let names = [INVALID_DROPPED, LOCALHOST_NODE_PORTS].into_iter();
        let counts = names.zip(self.reads).filter_map(|(name, read)| {
            #[expect(clippy::cast_precision_loss, reason = "exact up to 9 * 10^15 packets")]
            let count = read()? as f64;
            Some(counter(name, count))
        });
        counts.collect()
    }
}
