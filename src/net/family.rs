//! The two IP families, and a pair of values with one for each: trackers, syncers and rulesets
//! exist once per family.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpFamily {
    /// Programmed with `iptables-restore`.
    V4,
    /// Programmed with `ip6tables-restore`.
    V6,
}

impl IpFamily {
    /// Both families, in the order of all output.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the family of an address. [`parse_ip`](super::parse_ip) returns no IPv4-mapped
    /// addresses, so this is the family of its rules.
    pub const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the family of a network.
    pub const fn of_cidr(cidr: IpNet) -> Self {
        match cidr {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }

    /// Returns the spelling of `ipFamilies`, `addressType` and the metric label `ip_family`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Returns the other family.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    /// Returns the prefix length of a single address.
    pub const fn host_prefix_len(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A value for each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerFamily<T> {
    /// Value for IPv4.
    pub v4: T,
    /// Value for IPv6.
    pub v6: T,
}

impl<T> PerFamily<T> {
    /// Builds both values.
    pub fn from_fn(mut build: impl FnMut(IpFamily) -> T) -> Self {
        Self {
            v4: build(IpFamily::V4),
            v6: build(IpFamily::V6),
        }
    }

    /// Returns the value of `family`.
    pub const fn get(&self, family: IpFamily) -> &T {
        match family {
            IpFamily::V4 => &self.v4,
            IpFamily::V6 => &self.v6,
        }
    }

    /// Returns the value of `family`, mutable.
    pub const fn get_mut(&mut self, family: IpFamily) -> &mut T {
        match family {
            IpFamily::V4 => &mut self.v4,
            IpFamily::V6 => &mut self.v6,
        }
    }

    /// Returns references to both values.
    pub const fn as_ref(&self) -> PerFamily<&T> {
        PerFamily {
            v4: &self.v4,
            v6: &self.v6,
        }
    }

    /// Converts each value.
    pub fn map<U>(self, mut make: impl FnMut(IpFamily, T) -> U) -> PerFamily<U> {
        PerFamily {
            v4: make(IpFamily::V4, self.v4),
            v6: make(IpFamily::V6, self.v6),
        }
    }

    /// Returns both values with their family, IPv4 first.
    pub fn into_pairs(self) -> [(IpFamily, T); 2] {
        [(IpFamily::V4, self.v4), (IpFamily::V6, self.v6)]
    }
}
