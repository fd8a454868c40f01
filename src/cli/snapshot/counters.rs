//! Connections that the rules of a node have counted, by chain.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::cli::runtime::runtime;
use crate::host::{BackendChoice, Binaries, RunError, Sysctls};
use crate::inspect::catalog::{EndpointView, PortView};
use crate::net::{IpFamily, PerFamily};
use crate::ruleset::{ChainHash, ChainKind, CountedJump, ServiceChain};

/// Counters of the jumps to Service chains of one family.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct RuleCounters {
    /// Connections that matched rules of frontends, by the hash of the service port.
    frontends: BTreeMap<ChainHash, u64>,
    /// Connections that were sent to chains of endpoints.
    endpoints: BTreeMap<ServiceChain, u64>,
}

impl RuleCounters {
    /// Reads the kernel, with one run of the save program for each family.
    pub(in crate::cli) fn read_kernel(backend: BackendChoice) -> anyhow::Result<PerFamily<Self>> {
        let runtime = runtime()?;
        let mut counters = PerFamily::<Self>::default();
        let families = IpFamily::ALL.into_iter();
        for family in families.filter(|family| !Sysctls::default().lacks(*family)) {
            let of_family = counters.get_mut(family);
            let read = async {
                let programs = Binaries::discover(backend, family).await?;
                programs
                    .save_counters(&mut |line| of_family.add(line))
                    .await?;
                Ok::<_, RunError>(())
            };
            runtime.block_on(read)?;
        }
        Ok(counters)
    }

    /// Adds the rules of a dump.
    pub(super) fn add_text(&mut self, text: &str) {
        text.lines().for_each(|line| self.add(line));
    }

    fn add(&mut self, line: &str) {
        let Some(jump) = CountedJump::parse(line) else {
            return;
        };
        let target = jump.target;
        if jump.is_of_frontend() {
            *self.frontends.entry(target.hash).or_default() += jump.connections;
        } else if target.kind == ChainKind::Endpoint {
            *self.endpoints.entry(target).or_default() += jump.connections;
        }
    }

    /// Reports whether no rule has a counter.
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.frontends.is_empty() && self.endpoints.is_empty()
    }

    pub(in crate::cli) fn of_port(
        &self,
        view: &PortView,
        last_full_sync: Option<Timestamp>,
    ) -> PortCounters {
        let chains = view.chains.iter();
        let mut chains = chains.filter_map(|chain| ServiceChain::parse(chain));
        let of_port = chains.find(|chain| chain.kind != ChainKind::Endpoint);
        // A port without chains of its own has no rules that could be missing.
        let connections = of_port.map_or(Some(0), |chain| self.frontends.get(&chain.hash).copied());
        let sent = |endpoint: &EndpointView| {
            let chain = ServiceChain::parse(&endpoint.chain);
            let sent = chain.and_then(|chain| self.endpoints.get(&chain));
            sent.copied()
        };
        PortCounters {
            connections,
            endpoints: view.endpoints.iter().map(sent).collect(),
            last_full_sync,
        }
    }
}

/// Counters of a service port in one family.
#[derive(Debug)]
pub(in crate::cli) struct PortCounters {
    /// Connections that matched rules of its frontends; `None` if the reading has none of these.
    pub(in crate::cli) connections: Option<u64>,
    /// Connections that were sent to each endpoint, in their order; `None` for one whose rule is
    /// not in the reading, which may be older or newer than the rules of the listing.
    pub(in crate::cli) endpoints: Vec<Option<u64>>,
    /// Last full sync of the daemon, which wrote all rules: counters begin then or later.
    pub(in crate::cli) last_full_sync: Option<Timestamp>,
}

impl PortCounters {
    /// Returns the share of an endpoint in the connections to all; `None` without any.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share with 15 digits is exact enough"
    )]
    pub(in crate::cli) fn observed_ratio(&self, index: usize) -> Option<f64> {
        let all: u64 = self.endpoints.iter().flatten().sum();
        let of_one = (*self.endpoints.get(index)?)?;
        (all > 0).then(|| of_one as f64 / all as f64)
    }
}
