//! Chances as the kernel stores them, and the `1/n` that was meant by them.
//!
//! Apart from the other [conditions](super::condition) because texts say less than was meant: ten
//! decimals since kube-proxy 1.20, five before, and what is stored is neither.

use std::fmt;

/// A chance in units of 2^-31, as `xt_statistic` stores it.
///
/// The text has ten decimals when written and eleven when printed, and neither is the stored
/// number; so the number is what is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

/// Of five decimals.
const FIVE: u32 = 100_000;

impl Probability {
    /// The whole, 2^31.
    pub(super) const ONE: u32 = 1 << 31;

    /// How many of 2^31.
    pub const fn units(self) -> u32 {
        self.0
    }

    /// The `1/n` that was meant, if it is one. Old releases of kube-proxy wrote five decimals, so
    /// it may be what is left of it in these.
    #[must_use]
    pub fn rounded(self) -> Self {
        let part = self.parts().and_then(|parts| part_of(Self::ONE, parts));
        part.map_or(self, Self)
    }

    /// The `n` of the `1/n` that was meant, if it is one.
    pub(super) fn parts(self) -> Option<u32> {
        let parts = part_of(Self::ONE, self.0)?;
        // The text has ten decimals, so what was stored may be off by one.
        let is_exact = part_of(Self::ONE, parts)?.abs_diff(self.0) <= 1;
        let is_short = || {
            let decimals = self.five_decimals()?;
            let parts = part_of(FIVE, decimals)?;
            let whole = u64::from(decimals) * u64::from(parts);
            (2 * whole.abs_diff(FIVE.into()) <= parts.into()).then_some(parts)
        };
        if is_exact { Some(parts) } else { is_short() }
    }

    /// How many hundred thousandths it is, if five decimals say it all.
    pub(super) fn five_decimals(self) -> Option<u32> {
        let (one, five) = (u64::from(Self::ONE), u64::from(FIVE));
        let decimals = (u64::from(self.0) * five + one / 2) / one;
        let stored = (decimals * one + five / 2) / five;
        let is_all = stored.abs_diff(self.0.into()) <= 1;
        u32::try_from(decimals).ok().filter(|_| is_all)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let chance: f64 = text.parse().ok()?;
        if !(0.0..=1.0).contains(&chance) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 2^31, as just checked"
        )]
        let units = (chance * f64::from(Self::ONE)).round() as u32;
        Some(Self(units))
    }
}

/// That part of a whole, to the nearest; `None` of none.
const fn part_of(whole: u32, parts: u32) -> Option<u32> {
    match whole.saturating_add(parts / 2).checked_div(parts) {
        Some(0) | None => None,
        part => part,
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.11}", f64::from(self.0) / f64::from(Self::ONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parts(text: &str) -> Option<u32> {
        Probability::read(text).unwrap().parts()
    }

    #[test]
    fn the_n_of_every_text() {
        for n in 1..=20_000_u32 {
            let chance = 1.0 / f64::from(n);
            let written = Probability::read(&format!("{chance:.10}")).unwrap();
            assert_eq!(written.parts(), Some(n));
            assert_eq!(parts(&written.to_string()), Some(n), "as printed");
            // Beyond that, two of them have one text.
            if n <= 316 {
                let written = Probability::read(&format!("{chance:.5}")).unwrap();
                assert_eq!(written.parts(), Some(n), "{chance:.5}");
                assert_eq!(parts(&written.to_string()), Some(n), "{written}");
            }
        }
    }

    #[test]
    fn what_is_no_part() {
        for text in ["0", "0.75", "0.333", "0.50001", "0.99999", "0.123456"] {
            assert_eq!(parts(text), None, "{text}");
            let chance = Probability::read(text).unwrap();
            assert_eq!(chance.rounded(), chance);
        }
        assert_eq!(
            Probability::read("0.333").unwrap().five_decimals(),
            Some(33_300)
        );
        assert_eq!(Probability::read("0.123456").unwrap().five_decimals(), None);
    }
}
