//! Decides conflicts over frontends that several service ports ask for.
//!
//! The cluster IP comes first, then load balancer addresses, then external IPs, so that a tenant
//! cannot take over the cluster IP of another Service by writing it into `externalIPs`. Claims of
//! one rank are ordered by the name of the Service and its port: the winner depends on the objects
//! alone, not on the order in which they arrived.
//!
//! The loser has no rules at all for the frontend. If they came after those of the winner, they
//! would catch what the winner means to reject or drop.

use std::collections::BTreeSet;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use crate::model::{ExternalIps, Frontend, FrontendRank, PortFrontend, Service, ServiceName};

/// Frontends that one Service asks for, sorted, each once per port.
pub(super) type Wanted = Vec<(PortFrontend, FrontendRank)>;

#[derive(Debug, Default)]
pub(super) struct Frontends {
    external_ips: ExternalIps,
    claims: HashMap<Frontend, Claims>,
    /// Frontends with several claims.
    conflicts: BTreeSet<Frontend>,
}

/// Claim to a frontend, in the order of precedence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    pub(super) rank: FrontendRank,
    pub(super) service: ServiceName,
    /// Position of the port among those of its Service.
    pub(super) port_index: u16,
}

/// Claims to one frontend: nearly always one.
#[derive(Debug)]
enum Claims {
    One(Claim),
    Several(BTreeSet<Claim>),
}

/// Claim that is lost now, or is no longer lost: the Service and its frontend.
pub(super) type Toggle = (ServiceName, PortFrontend);

impl Frontends {
    /// Returns an index without claims.
    pub(super) fn new(external_ips: ExternalIps) -> Self {
        Self {
            external_ips,
            ..Self::default()
        }
    }

    /// Returns the number of frontends that several service ports ask for.
    pub(super) fn conflicts(&self) -> usize {
        self.conflicts.len()
    }

    /// Returns each frontend with several claims, with the claim that won and one that lost,
    /// sorted by frontend.
    pub(super) fn lost(&self) -> impl Iterator<Item = (Frontend, &Claim, &Claim)> {
        self.conflicts.iter().flat_map(|frontend| {
            let claims = match self.claims.get(frontend) {
                Some(Claims::Several(claims)) => Some(claims),
                Some(Claims::One(_)) | None => None,
            };
            let mut claims = claims.into_iter().flatten();
            let winner = claims.next();
            let losers = claims.map(move |loser| Some((*frontend, winner?, loser)));
            losers.flatten()
        })
    }

    pub(super) fn owner(&self, frontend: &Frontend) -> Option<&ServiceName> {
        let claim = match self.claims.get(frontend)? {
            Claims::One(claim) => Some(claim),
            Claims::Several(claims) => claims.first(),
        };
        claim.map(|claim| &claim.service)
    }

    pub(super) fn wanted_by(&self, service: Option<&Service>) -> Wanted {
        service.map_or_else(Vec::new, |service| service.frontends(self.external_ips))
    }

    /// Returns the claims of a Service that is rendered in another state than the cluster's: the
    /// frontends of the rendered state. Those that the cluster's state lacks give way to all other
    /// claims.
    pub(super) fn claims_of_override(
        &self,
        rendered: Option<&Service>,
        wanted: Option<&Service>,
    ) -> Wanted {
        let mut kept = self.wanted_by(rendered);
        let wanted = self.wanted_by(wanted).into_iter();
        let wanted: HashSet<Frontend> = wanted.map(|(of, _)| of.frontend).collect();
        for (of, rank) in &mut kept {
            if !wanted.contains(&of.frontend) {
                *rank = FrontendRank::Former;
            }
        }
        kept
    }

    /// Replaces the claims of one Service. Takes time by the frontends of that Service only.
    pub(super) fn update(
        &mut self,
        name: &ServiceName,
        before: &Wanted,
        now: &Wanted,
    ) -> Vec<Toggle> {
        let mut toggles = Vec::new();
        let claim = |of: PortFrontend, rank: FrontendRank| Claim {
            rank,
            service: name.clone(),
            port_index: of.port_index,
        };
        // Both are sorted, which makes the search for what stays cheap.
        for (of, rank) in before {
            if now.binary_search(&(*of, *rank)).is_err() {
                self.remove(of.frontend, &claim(*of, *rank), &mut toggles);
            }
        }
        for (of, rank) in now {
            if before.binary_search(&(*of, *rank)).is_err() {
                self.add(of.frontend, claim(*of, *rank), &mut toggles);
            }
        }
        toggles
    }

    fn add(&mut self, frontend: Frontend, claim: Claim, toggles: &mut Vec<Toggle>) {
        let claims = match self.claims.entry(frontend) {
            Entry::Vacant(entry) => {
                entry.insert(Claims::One(claim));
                return;
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        let loser = match claims {
            Claims::One(known) => {
                self.conflicts.insert(frontend);
                let both = BTreeSet::from([known.clone(), claim]);
                let loser = both.last().cloned();
                *claims = Claims::Several(both);
                loser
            }
            Claims::Several(known) => {
                let winner = known.first().cloned();
                known.insert(claim.clone());
                winner.map(|winner| winner.max(claim))
            }
        };
        toggles.extend(loser.map(|loser| toggle(frontend, loser)));
    }

    fn remove(&mut self, frontend: Frontend, claim: &Claim, toggles: &mut Vec<Toggle>) {
        let Entry::Occupied(mut entry) = self.claims.entry(frontend) else {
            return;
        };
        let Claims::Several(claims) = entry.get_mut() else {
            entry.remove();
            return;
        };
        let was_owner = claims.first() == Some(claim);
        claims.remove(claim);
        // The next claim wins now, or a lost one is gone.
        let changed = if was_owner {
            claims.first()
        } else {
            Some(claim)
        };
        toggles.extend(changed.map(|claim| toggle(frontend, claim.clone())));
        if claims.len() == 1
            && let Some(last) = claims.pop_first()
        {
            self.conflicts.remove(&frontend);
            *entry.get_mut() = Claims::One(last);
        }
    }
}

fn toggle(frontend: Frontend, claim: Claim) -> Toggle {
    let port_index = claim.port_index;
    let lost = PortFrontend {
        port_index,
        frontend,
    };
    (claim.service, lost)
}
