//! Limits of what the Services of one namespace may have, and what a Service gets beyond them.
//!
//! Kept separate from the index in [`tracker`](crate::tracker) that applies them because the result
//! is part of a Service's state.

/// The most endpoints that one Service may have, all its ports together: as many as the largest
/// cluster that is measured has in all. Whoever may write EndpointSlices can have twenty thousand
/// ports in each, with a thousand endpoints: four such objects are more chains than any node has
/// memory for, and with the process dies every other Service's update.
///
/// Differs from upstream, which writes them all, or tries to.
pub const MOST_ENDPOINTS: usize = 250_000;

/// The most rules, give or take a factor of three, that one Service may have apart from those of
/// its endpoints: ports, times addresses and source ranges. With one address a Service has all
/// ports of a protocol. The API stores 20,000 ports and 20,000 external IPs in one object, which
/// would be 400 million rules: more than any node has memory for.
///
/// Differs from upstream, which writes them all, or tries to.
pub const MOST_RULES_WITHOUT_ENDPOINTS: usize = 90_000;

/// Limits of all Services of one namespace together, in one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceLimits {
    /// Endpoints of each port, as for [`MOST_ENDPOINTS`].
    pub endpoints: usize,
    /// Ports, times addresses and source ranges of their Service:
    /// [`Service::rules_without_endpoints`](super::Service::rules_without_endpoints).
    pub rules_without_endpoints: usize,
}

impl NamespaceLimits {
    /// The limits of every namespace. Both leave room for a Service at its own limit, also if it
    /// has to return below nine tenths of them.
    ///
    /// Endpoints: a restore has to end within five minutes, on a core that it shares, or everything
    /// in it fails. One that adds 250,000 endpoints takes iptables 1.8.9 44 s of CPU and 0.6 GB of
    /// memory on legacy, 142 s and 1.1 GB on nft. With 100,000 it is 9 and 21 s: time grows with
    /// the square, and half a million would take nft longer than there is.
    ///
    /// Rules without endpoints: every new connection of the node passes them one by one. A jump for
    /// each of 250,000 pairs of a port and an address, from objects of 52 KB, makes a connection
    /// to localhost take 28 ms on legacy and 7 ms on nft, where without them it takes 0.05 ms. A
    /// restore of them takes 3 s of CPU and 0.3 GB on legacy, 13 s and 0.6 GB on nft.
    ///
    /// Differs from upstream, which has none.
    pub const DEFAULT: Self = Self {
        endpoints: 300_000,
        rules_without_endpoints: 100_000,
    };
}

impl Default for NamespaceLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Part of its rules that the limits of its namespace leave to a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Allowance {
    /// All of them.
    #[default]
    Full,
    /// Those of a Service without endpoints: clients get an immediate reject.
    NoEndpoints,
    /// None.
    NoRules,
}
