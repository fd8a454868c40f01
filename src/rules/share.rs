//! Exact fractions: how many of all packets end one way.
//!
//! Apart because the kernel stores a chance as so many of 2^31, but who reads a trace wants to
//! see thirds.

use std::fmt;

use super::condition::Probability;

/// A fraction of all packets, in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    numerator: u128,
    denominator: u128,
}

impl Share {
    /// All of them.
    pub const ALL: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    /// None of them.
    pub const NONE: Self = Self {
        numerator: 0,
        denominator: 1,
    };

    /// The fraction; `NONE` if the denominator is zero.
    pub fn new(numerator: u128, denominator: u128) -> Self {
        match gcd(numerator, denominator) {
            _ if denominator == 0 => Self::NONE,
            common => Self {
                numerator: numerator / common,
                denominator: denominator / common,
            },
        }
    }

    /// The chance that was meant: `1/n` if the stored number is what `1/n` is stored as.
    pub fn of_chance(chance: Probability) -> Self {
        let one = u128::from(Probability::ONE);
        let units = u128::from(chance.units());
        let Some(parts) = (one + units / 2).checked_div(units) else {
            return Self::NONE;
        };
        // The text has ten decimals, so what was stored may be off by one.
        match (one + parts / 2).checked_div(parts) {
            Some(expected) if expected.abs_diff(units) <= 1 => Self::new(1, parts),
            _ => Self::new(units, one),
        }
    }

    /// Whether the two are the same but for the rounding of old releases, which wrote five decimals.
    pub fn is_nearly(self, other: Self) -> bool {
        let part = |share: Self| {
            // Chances that are no `1/n` make fine fractions; shifting keeps their ratio.
            let shift = (u128::BITS - share.denominator.leading_zeros()).saturating_sub(u32::BITS);
            let scaled = |number: u128| u32::try_from(number >> shift).unwrap_or(u32::MAX);
            f64::from(scaled(share.numerator)) / f64::from(scaled(share.denominator))
        };
        (part(self) - part(other)).abs() < 1e-4
    }

    /// What is left of all.
    #[must_use]
    pub fn complement(self) -> Self {
        let numerator = self.denominator.saturating_sub(self.numerator);
        Self::new(numerator, self.denominator)
    }

    /// That share of this share.
    #[must_use]
    pub fn of(self, other: Self) -> Self {
        // Crossing first keeps the numbers small: 2/3 of 1/2 never becomes sixths.
        let left = Self::new(self.numerator, other.denominator);
        let right = Self::new(other.numerator, self.denominator);
        Self::new(
            left.numerator.saturating_mul(right.numerator),
            left.denominator.saturating_mul(right.denominator),
        )
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let common = gcd(self.denominator, other.denominator);
        let (Some(left), Some(right)) = (
            other.denominator.checked_div(common),
            self.denominator.checked_div(common),
        ) else {
            return Self::NONE;
        };
        let numerator = self
            .numerator
            .saturating_mul(left)
            .saturating_add(other.numerator.saturating_mul(right));
        Self::new(numerator, self.denominator.saturating_mul(left))
    }
}

const fn gcd(mut left: u128, mut right: u128) -> u128 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chance: &str, expected: &str) {
        let chance = Probability::read(chance).unwrap();
        assert_eq!(Share::of_chance(chance).to_string(), expected);
    }

    #[test]
    fn chances_are_the_fractions_that_were_meant() {
        check("0.3333333333", "1/3");
        check("0.33333333349", "1/3");
        check("0.0010000000", "1/1000");
        check("1.0", "1");
        check("0", "0");
        check("0.75", "3/4");
        for parts in 1..=10_000_u32 {
            let text = format!("{:.10}", 1.0 / f64::from(parts));
            let share = Share::of_chance(Probability::read(&text).unwrap());
            assert_eq!(share, Share::new(1, parts.into()), "{text}");
        }
    }

    #[test]
    fn five_decimals_are_nearly_the_same() {
        let rounded = |text| Probability::read(text).unwrap().rounded();
        for (short, long) in [
            ("0.33333", "0.3333333333"),
            ("0.50000", "0.5"),
            ("0.01429", "0.0142857143"),
        ] {
            assert_eq!(rounded(short), rounded(long), "{short}");
            let shares =
                [short, long].map(|text| Share::of_chance(Probability::read(text).unwrap()));
            assert!(shares[0].is_nearly(shares[1]), "{short}");
        }
        assert_ne!(rounded("0.333"), rounded("0.3333333333"));
        assert_eq!(rounded("0.75"), Probability::read("0.75").unwrap());
        assert_eq!(rounded("0"), Probability::read("0").unwrap());
        assert!(!Share::new(1, 3).is_nearly(Share::new(333, 1000)));
        assert!(Share::new(1, 3).is_nearly(Share::new(1 << 90, 3 << 90)));
        assert!(Share::new((1 << 90) - 1, 3 << 90).is_nearly(Share::new(1, 3)));
    }

    #[test]
    fn arithmetic_is_exact() {
        let third = Share::new(1, 3);
        assert_eq!(third.complement().of(Share::new(1, 2)), third);
        assert_eq!(third.plus(Share::new(1, 6)), Share::new(1, 2));
        assert_eq!(Share::new(4, 0), Share::NONE);
    }
}
