//! Tells of the other backend: rules of another proxy there, or kubelet's word that it is the right
//! one.
//!
//! Apart from the families, whose backend stays the same whatever is found: packets meet the rules
//! of both, so that one set of rules after the other would be worse than the wrong one.

use std::time::Duration;

use tracing::warn;

use crate::host::{hinted_backend, other_backend};
use crate::net::IpFamily;
use crate::rules::Backend;

/// How often is looked: half a dozen short processes, for what somebody does once in the life of a
/// node.
const EVERY: Duration = Duration::from_secs(600);

/// Looks again and again; says each thing once.
pub(super) async fn watch<T>(family: IpFamily, used: Backend) -> T {
    let (mut has_told_of_rules, mut has_told_of_hint) = (false, false);
    loop {
        if !has_told_of_rules && let Some(other) = other_backend(used, family).await {
            has_told_of_rules = true;
            warn!(
                %family,
                "{other} has rules of a proxy, too, and packets meet both; `deltaproxy cleanup \
                 --iptables-backend={other}` removes those, `--iptables-backend={other}` would keep \
                 them up to date in place of {used}'s"
            );
        }
        if !has_told_of_hint
            && let Some(hinted) = hinted_backend(family).await
            && hinted != used
        {
            has_told_of_hint = true;
            warn!(
                %family,
                "kubelet uses {hinted}, and rules are written with {used}; without \
                 `--iptables-backend` a restart would choose {hinted}"
            );
        }
        tokio::time::sleep(EVERY).await;
    }
}
