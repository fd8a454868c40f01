//! The named counters of the kernel that two kinds of rules add to.
//!
//! Apart because a rule that names a counter is refused where the counter is not there, and with
//! it the whole restore: what is there is found out before each full restore.

/// A counter, by what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Packets dropped because conntrack cannot place them.
    InvalidDropped,
    /// Packets for NodePorts on 127.0.0.0/8, which tell whether anybody still depends on those.
    LocalhostNodePorts,
}

impl Counter {
    /// In the order in which they are made.
    pub const ALL: [Self; 2] = [Self::InvalidDropped, Self::LocalhostNodePorts];

    /// As the kernel knows it: one for both families, and the same before and after kube-proxy.
    ///
    /// Upstream: pkg/proxy/metrics/metrics.go, `IPTablesCTStateInvalidDroppedNFAcctCounter` and
    /// `LocalhostNodePortAcceptedNFAcctCounter` (v1.36)
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidDropped => "ct_state_invalid_dropped_pkts",
            Self::LocalhostNodePorts => "localhost_nps_accepted_pkts",
        }
    }

    /// What a rule says to add to it.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::InvalidDropped => "-m nfacct --nfacct-name ct_state_invalid_dropped_pkts",
            Self::LocalhostNodePorts => "-m nfacct --nfacct-name localhost_nps_accepted_pkts",
        }
    }
}

/// The counters that rules may name. Any set is legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    invalid_dropped: bool,
    localhost_node_ports: bool,
}

impl Counters {
    /// Without nfacct.
    pub const NONE: Self = Self {
        invalid_dropped: false,
        localhost_node_ports: false,
    };

    /// With it.
    pub const ALL: Self = Self {
        invalid_dropped: true,
        localhost_node_ports: true,
    };

    /// Whether rules may name this one.
    pub const fn has(self, counter: Counter) -> bool {
        match counter {
            Counter::InvalidDropped => self.invalid_dropped,
            Counter::LocalhostNodePorts => self.localhost_node_ports,
        }
    }

    /// From now on rules may name this one, too.
    pub const fn add(&mut self, counter: Counter) {
        match counter {
            Counter::InvalidDropped => self.invalid_dropped = true,
            Counter::LocalhostNodePorts => self.localhost_node_ports = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_counters_as_they_are_made() {
        for counter in Counter::ALL {
            let words = format!("-m nfacct --nfacct-name {}", counter.name());
            assert_eq!(counter.words(), words);
            assert!(Counters::ALL.has(counter) && !Counters::NONE.has(counter));
            let mut one = Counters::NONE;
            one.add(counter);
            assert_eq!(
                Counter::ALL.map(|other| one.has(other)),
                Counter::ALL.map(|other| other == counter)
            );
        }
    }
}
