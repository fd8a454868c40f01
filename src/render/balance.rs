//! The probabilities by which a chain of rules spreads packets evenly.
//!
//! Apart because the arithmetic surprises everybody once.

use std::fmt::{self, Display};

/// The share of the endpoint at a position, given that its predecessors declined.
///
/// Rules are tried in order, so endpoint `i` of `n` only sees what those before it let pass: its
/// own share must be 1/(n - i) for the total to come out even. The last one takes what is left and
/// has no probability at all.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `computeProbability` (v1.36)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probability {
    /// How many endpoints are left, this one included.
    remaining: usize,
}

impl Probability {
    /// `None` for the last position.
    pub(super) const fn at(position: usize, of: usize) -> Option<Self> {
        let remaining = of.saturating_sub(position);
        if remaining > 1 {
            Some(Self { remaining })
        } else {
            None
        }
    }
}

impl Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "no Service has 2^53 endpoints")]
        let remaining = self.remaining as f64;
        write!(f, "{:.10}", 1.0 / remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(position: usize, of: usize, expected: &str) {
        let shown = Probability::at(position, of).map(|p| p.to_string());
        assert_eq!(shown.as_deref().unwrap_or("always"), expected);
    }

    #[test]
    fn shares_are_even_and_have_ten_decimals() {
        check(0, 1, "always");
        check(0, 2, "0.5000000000");
        check(0, 3, "0.3333333333");
        check(1, 3, "0.5000000000");
        check(2, 3, "always");
        check(0, 6, "0.1666666667");
        check(0, 7, "0.1428571429");
    }
}
