//! The values that matches compare with, each in its one normal form.
//!
//! Apart from [`Match`](super::Match) because here is what makes two spellings equal: sets
//! instead of lists, numbers instead of their texts.

use std::fmt;

/// A comparison and whether it is turned round by `!`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Negatable<T> {
    /// Whether everything but `value` matches.
    pub negated: bool,
    /// What is compared with.
    pub value: T,
}

impl<T> Negatable<T> {
    /// Turns the answer of the comparison round if need be.
    pub const fn decide(&self, answer: bool) -> bool {
        answer != self.negated
    }

    /// What stands before the option.
    pub(super) const fn prefix(&self) -> &'static str {
        if self.negated { "! " } else { "" }
    }
}

/// Ports from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl PortRange {
    /// Whether the port is in it.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    /// `80`, `80:90`, `:90` or `80:`; names of services are not resolved.
    pub(super) fn read(text: &str) -> Option<Self> {
        let Some((first, last)) = text.split_once(':') else {
            let port = text.parse().ok()?;
            return Some(Self {
                first: port,
                last: port,
            });
        };
        let bound = |text: &str, open: u16| match text {
            "" => Some(open),
            digits => digits.parse().ok(),
        };
        let range = Self {
            first: bound(first, 0)?,
            last: bound(last, u16::MAX)?,
        };
        (range.first <= range.last).then_some(range)
    }

    /// "Not up to 1024" is printed as "from 1025" by the nft back end, so that is the normal form.
    /// Every port is no condition at all: `None`.
    pub(super) const fn normal(self, negated: bool) -> Option<Negatable<Self>> {
        let value = match (negated, self.first, self.last) {
            (false, 0, u16::MAX) => return None,
            (true, 0, last) if last < u16::MAX => Self {
                first: last + 1,
                last: u16::MAX,
            },
            (true, first, u16::MAX) if first > 0 => Self {
                first: 0,
                last: first - 1,
            },
            _ => {
                return Some(Negatable {
                    negated,
                    value: self,
                });
            }
        };
        Some(Negatable {
            negated: false,
            value,
        })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}:{}", self.first, self.last)
    }
}

/// A value and the bits of it that count, as the `mark` match and the `MARK` target hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits {
    /// Compared with, or combined into, the mark.
    pub value: u32,
    /// The bits looked at, or cleared first.
    pub mask: u32,
}

impl Bits {
    /// The match: whether the bits under the mask equal the value.
    pub const fn matches(self, mark: u32) -> bool {
        mark & self.mask == self.value
    }

    /// The target: clears the bits under the mask, then flips those of the value.
    pub const fn apply(self, mark: u32) -> u32 {
        (mark & !self.mask) ^ self.value
    }

    /// `V/M`, or `V` with all bits.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (number(value)?, number(mask)?),
            None => (number(text)?, u32::MAX),
        };
        Some(Self { value, mask })
    }
}

/// A number as C's `strtoul` reads it with base 0.
pub(super) fn number(text: &str) -> Option<u32> {
    match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) if !digits.is_empty() => u32::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}
