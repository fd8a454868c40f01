//! The two IP families, and a pair holding one value for each.
//!
//! Apart because nearly everything here exists once per family: trackers, syncers, rule sets.

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
    /// Both, in the order in which they are always shown.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address. IPv4-mapped addresses are never built (see
    /// [`parse_ip`](super::parse_ip)), so this is the family of its rules.
    pub const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The family of a network.
    pub const fn of_cidr(cidr: IpNet) -> Self {
        match cidr {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }

    /// As Kubernetes spells it in `ipFamilies`, `addressType` and the `ip_family` metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    /// The prefix length of a single address.
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

/// One value for each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerFamily<T> {
    /// The IPv4 value.
    pub v4: T,
    /// The IPv6 value.
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

    /// The value of `family`.
    pub const fn get(&self, family: IpFamily) -> &T {
        match family {
            IpFamily::V4 => &self.v4,
            IpFamily::V6 => &self.v6,
        }
    }

    /// The value of `family`, to change it.
    pub const fn get_mut(&mut self, family: IpFamily) -> &mut T {
        match family {
            IpFamily::V4 => &mut self.v4,
            IpFamily::V6 => &mut self.v6,
        }
    }

    /// References to both.
    pub const fn as_ref(&self) -> PerFamily<&T> {
        PerFamily {
            v4: &self.v4,
            v6: &self.v6,
        }
    }

    /// Another value made of each.
    pub fn map<U>(self, mut make: impl FnMut(IpFamily, T) -> U) -> PerFamily<U> {
        PerFamily {
            v4: make(IpFamily::V4, self.v4),
            v6: make(IpFamily::V6, self.v6),
        }
    }

    /// Both values with their family, IPv4 first.
    pub fn into_pairs(self) -> [(IpFamily, T); 2] {
        [(IpFamily::V4, self.v4), (IpFamily::V6, self.v6)]
    }
}
