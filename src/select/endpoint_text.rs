//! The text `ip:port` of an endpoint, without allocation.
//!
//! Endpoints are ordered by it, their chain names are hashes of it, and it is the
//! `--to-destination` of their rules.

use std::fmt::{self, Write};
use std::net::IpAddr;

use crate::net::Port;

/// Length of the longest text: `[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535` is 47 bytes.
const CAPACITY: usize = 47;

/// Text like `10.0.0.1:80` or `[fd00::1]:80`, compared as bytes: `10.0.1.10:80` comes before
/// `10.0.1.5:80`, as upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EndpointText {
    bytes: [u8; CAPACITY],
    len: u8,
}

impl EndpointText {
    /// Writes the text of one endpoint.
    pub fn new(ip: IpAddr, port: Port) -> Self {
        let mut text = Self {
            bytes: [0; CAPACITY],
            len: 0,
        };
        // Writing fails only if the text is full, and no address is longer than its capacity.
        let _ = match ip {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                let mut digits = itoa::Buffer::new();
                text.push(digits.format(a));
                text.push(".");
                text.push(digits.format(b));
                text.push(".");
                text.push(digits.format(c));
                text.push(".");
                text.push(digits.format(d));
                Ok(())
            }
            IpAddr::V6(ip) => write!(text, "[{ip}]"),
        };
        text.push(":");
        text.push(itoa::Buffer::new().format(port.get()));
        text
    }

    /// Returns the text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn push(&mut self, piece: &str) {
        let start = usize::from(self.len);
        let end = start + piece.len();
        if let Some(space) = self.bytes.get_mut(start..end) {
            space.copy_from_slice(piece.as_bytes());
            self.len = u8::try_from(end).unwrap_or(self.len);
        }
    }
}

impl Write for EndpointText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.push(piece);
        Ok(())
    }
}

impl Ord for EndpointText {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for EndpointText {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for EndpointText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(self.as_bytes()).unwrap_or_default())
    }
}

impl fmt::Debug for EndpointText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
