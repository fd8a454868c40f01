//! Exact fractions: how many of all packets end one way.
//!
//! Apart because the kernel stores a chance as so many of 2^31, but who reads a trace wants to
//! see thirds.
//!
//! # Invariants
//!
//! - Parts of a whole add up to it. Chances whose product has no short fraction are taken from a
//!   [`GRID`], and what they leave is the exact rest.

use std::fmt;

use super::probability::Probability;

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
        match (chance.parts(), chance.five_decimals()) {
            (Some(parts), _) => Self::new(1, parts.into()),
            (None, Some(decimals)) => Self::new(decimals.into(), 100_000),
            (None, None) => Self::new(chance.units().into(), Probability::ONE.into()),
        }
    }

    /// Whether the two are the same but for the rounding of old releases, which wrote five
    /// decimals.
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

    /// That share of this share, and the rest of it.
    #[must_use]
    pub fn split(self, other: Self) -> (Self, Self) {
        let part = self.of(other);
        (part, self.less(part))
    }

    /// That share of this share.
    #[must_use]
    pub fn of(self, other: Self) -> Self {
        match (self, other) {
            (Self::ALL, part) | (part, Self::ALL) => return part,
            _ => {}
        }
        // Crossing first keeps the numbers small: 2/3 of 1/2 never becomes sixths.
        let left = Self::new(self.numerator, other.denominator);
        let right = Self::new(other.numerator, self.denominator);
        let denominator = left.denominator.checked_mul(right.denominator);
        match denominator.filter(|denominator| *denominator <= SHORT) {
            // Neither numerator is greater than a denominator.
            Some(denominator) => Self::new(left.numerator * right.numerator, denominator),
            None => Self::on_grid(self.scaled(GRID), other.scaled(GRID)),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let exact = self.common(other, u128::checked_add);
        exact.unwrap_or_else(|| Self::on_grid(self.scaled(GRID) + other.scaled(GRID), GRID))
    }

    /// What is left of it without another.
    fn less(self, other: Self) -> Self {
        let exact = self.common(other, |left, right| Some(left.saturating_sub(right)));
        exact.unwrap_or_else(|| {
            let left = self.scaled(GRID).saturating_sub(other.scaled(GRID));
            Self::on_grid(left, GRID)
        })
    }

    /// Adds or subtracts exactly, if the numbers do not get too long for it.
    fn common(self, other: Self, join: impl Fn(u128, u128) -> Option<u128>) -> Option<Self> {
        let common = gcd(self.denominator, other.denominator);
        let left = other.denominator.checked_div(common)?;
        let right = self.denominator.checked_div(common)?;
        let numerator = join(
            self.numerator.checked_mul(left)?,
            other.numerator.checked_mul(right)?,
        )?;
        let denominator = self.denominator.checked_mul(left)?;
        Some(Self::new(numerator, denominator))
    }

    /// The product of two numbers of grid lines, to the nearest line.
    fn on_grid(left: u128, right: u128) -> Self {
        Self::new((left.saturating_mul(right) + GRID / 2) / GRID, GRID)
    }

    /// How many of so many it is, to the nearest; `of` is at most `GRID`.
    fn scaled(self, of: u128) -> u128 {
        // Bits that there is no room for are those that matter least.
        let shift = (u128::BITS - self.denominator.leading_zeros()).saturating_sub(64);
        let (numerator, denominator) = (self.numerator >> shift, self.denominator >> shift);
        (numerator * of + denominator / 2)
            .checked_div(denominator)
            .unwrap_or_default()
    }

    /// A fraction near it that can be read.
    fn readable(self) -> Self {
        if self.denominator <= READABLE {
            return self;
        }
        let shift = (u128::BITS - self.denominator.leading_zeros()).saturating_sub(62);
        let (numerator, denominator) = (self.numerator >> shift, self.denominator >> shift);
        let (mut rest, mut by) = (denominator, numerator);
        let (mut last, mut near) = ((1, 0), (0, 1));
        // Each is nearer than the one before: the continued fraction of the number.
        while by != 0 {
            let whole = rest / by;
            (last, near) = (near, (whole * near.0 + last.0, whole * near.1 + last.1));
            (rest, by) = (by, rest % by);
            let (left, right) = (near.0 * denominator, numerator * near.1);
            if left.abs_diff(right) * 10_000 <= right {
                break;
            }
        }
        Self::new(near.0, near.1)
    }
}

/// Greater denominators are not computed with exactly.
const SHORT: u128 = 1 << 40;

/// So fine that nobody sees it; `SHORT` times as many can be counted.
const GRID: u128 = 1 << 62;

/// Greater denominators are not shown.
const READABLE: u128 = 1_000_000;

const fn gcd(mut left: u128, mut right: u128) -> u128 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            numerator,
            denominator,
        } = self.readable();
        match denominator {
            1 => write!(f, "{numerator}"),
            _ => write!(f, "{numerator}/{denominator}"),
        }
    }
}
