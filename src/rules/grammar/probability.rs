//! Probabilities of rules, and the exact share of all packets that they select.
//!
//! The kernel stores a probability in units of 2^-31, and kube-proxy writes it with ten decimals,
//! before 1.20 with five. A trace has to show the `1/n` that was meant.
//!
//! # Invariants
//!
//! - The parts of a split share add up to it. A product without a short fraction is rounded to the
//!   [`GRID`], and the remainder is exact.

use std::fmt;

/// Probability in units of 2^-31, as `xt_statistic` stores it.
///
/// The text has ten decimals when written and eleven when printed, and neither is the stored
/// number, so probabilities compare by the stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

const FIVE_DECIMALS: u32 = 100_000;

impl Probability {
    const ONE: u32 = 1 << 31;

    /// Returns the probability in units of 2^-31.
    pub const fn units(self) -> u32 {
        self.0
    }

    /// Returns the stored form of the `1/n` that was meant, also if the text had only the five
    /// decimals of old kube-proxy releases; any other probability unchanged.
    #[must_use]
    pub fn rounded(self) -> Self {
        let part = self
            .denominator()
            .and_then(|parts| part_of(Self::ONE, parts));
        part.map_or(self, Self)
    }

    /// Returns the `n` of the `1/n` that was meant; `None` for any other probability.
    fn denominator(self) -> Option<u32> {
        let parts = part_of(Self::ONE, self.0)?;
        // The text has ten decimals, so the stored number may be off by one.
        let is_exact = part_of(Self::ONE, parts)?.abs_diff(self.0) <= 1;
        let is_short = || {
            let decimals = self.five_decimals()?;
            let parts = part_of(FIVE_DECIMALS, decimals)?;
            let whole = u64::from(decimals) * u64::from(parts);
            (2 * whole.abs_diff(FIVE_DECIMALS.into()) <= parts.into()).then_some(parts)
        };
        if is_exact { Some(parts) } else { is_short() }
    }

    /// Returns the number of hundred thousandths; `None` if the probability has more decimals.
    fn five_decimals(self) -> Option<u32> {
        let (one, five) = (u64::from(Self::ONE), u64::from(FIVE_DECIMALS));
        let decimals = (u64::from(self.0) * five + one / 2) / one;
        let stored = (decimals * one + five / 2) / five;
        let is_exact = stored.abs_diff(self.0.into()) <= 1;
        u32::try_from(decimals).ok().filter(|_| is_exact)
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
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

/// Divides and rounds to the nearest; `None` if the quotient is zero or infinite.
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

/// Fraction of all packets, in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    numerator: u128,
    denominator: u128,
}

impl Share {
    pub const ALL: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    pub const NONE: Self = Self {
        numerator: 0,
        denominator: 1,
    };

    /// Returns the fraction; `NONE` if the denominator is zero.
    pub fn new(numerator: u128, denominator: u128) -> Self {
        match gcd(numerator, denominator) {
            _ if denominator == 0 => Self::NONE,
            common => Self {
                numerator: numerator / common,
                denominator: denominator / common,
            },
        }
    }

    /// Returns the fraction that was meant: `1/n` if the probability is a stored `1/n`.
    pub fn from_probability(chance: Probability) -> Self {
        match (chance.denominator(), chance.five_decimals()) {
            (Some(parts), _) => Self::new(1, parts.into()),
            (None, Some(decimals)) => Self::new(decimals.into(), 100_000),
            (None, None) => Self::new(chance.units().into(), Probability::ONE.into()),
        }
    }

    /// Reports whether the two differ by no more than the rounding of old kube-proxy releases,
    /// which wrote five decimals.
    pub fn is_nearly(self, other: Self) -> bool {
        (self.ratio() - other.ratio()).abs() < 1e-4
    }

    /// Returns the fraction as a number from 0 to 1.
    pub fn ratio(self) -> f64 {
        // Probabilities other than `1/n` have large terms; shifting keeps their ratio.
        let shift = (u128::BITS - self.denominator.leading_zeros()).saturating_sub(u32::BITS);
        let scaled = |number: u128| u32::try_from(number >> shift).unwrap_or(u32::MAX);
        f64::from(scaled(self.numerator)) / f64::from(scaled(self.denominator))
    }

    /// Returns the remainder of all packets.
    #[must_use]
    pub fn complement(self) -> Self {
        let numerator = self.denominator.saturating_sub(self.numerator);
        Self::new(numerator, self.denominator)
    }

    /// Splits this share: returns that part of it, and the remainder.
    #[must_use]
    pub fn split(self, other: Self) -> (Self, Self) {
        let part = self.of(other);
        (part, self.less(part))
    }

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

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let exact = self.common(other, u128::checked_add);
        exact.unwrap_or_else(|| Self::on_grid(self.scaled(GRID) + other.scaled(GRID), GRID))
    }

    fn less(self, other: Self) -> Self {
        let exact = self.common(other, |left, right| Some(left.saturating_sub(right)));
        exact.unwrap_or_else(|| {
            let left = self.scaled(GRID).saturating_sub(other.scaled(GRID));
            Self::on_grid(left, GRID)
        })
    }

    /// Adds or subtracts exactly; `None` if the numbers overflow.
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

    /// Returns the product of two numbers of grid lines, rounded to the nearest line.
    fn on_grid(left: u128, right: u128) -> Self {
        Self::new((left.saturating_mul(right) + GRID / 2) / GRID, GRID)
    }

    /// Returns the share multiplied by `of`, rounded; `of` is at most `GRID`.
    fn scaled(self, of: u128) -> u128 {
        // Drops the least significant bits, so that the product fits.
        let shift = (u128::BITS - self.denominator.leading_zeros()).saturating_sub(64);
        let (numerator, denominator) = (self.numerator >> shift, self.denominator >> shift);
        (numerator * of + denominator / 2)
            .checked_div(denominator)
            .unwrap_or_default()
    }

    /// Returns a fraction near the share with a denominator short enough to read.
    fn readable(self) -> Self {
        if self.denominator <= READABLE {
            return self;
        }
        let shift = (u128::BITS - self.denominator.leading_zeros()).saturating_sub(62);
        let (numerator, denominator) = (self.numerator >> shift, self.denominator >> shift);
        let (mut rest, mut by) = (denominator, numerator);
        let (mut last, mut near) = ((1, 0), (0, 1));
        // Convergents of the continued fraction: each is nearer than the one before.
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

/// Maximum denominator of exact products.
const SHORT: u128 = 1 << 40;

/// Denominator of rounded products: fine enough that the rounding is not visible, and `SHORT`
/// times as many still fit into 128 bits.
const GRID: u128 = 1 << 62;

/// Maximum denominator that is printed as it is.
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
