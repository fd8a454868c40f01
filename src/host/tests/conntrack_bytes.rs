//! Conntrack replies as the kernel encodes them, for tests of their parsing and of sweeps.

use std::net::{IpAddr, SocketAddr};

/// Returns a message as the kernel encodes it.
pub(in crate::host) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    bytes.resize(16, 0);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(in crate::host) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(in crate::host) fn ip(first: u16, ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => attribute(first, &ip.octets()),
        IpAddr::V6(ip) => attribute(first + 2, &ip.octets()),
    }
}

pub(in crate::host) fn tuple(kind: u16, protocol: u8, source: &str, destination: &str) -> Vec<u8> {
    let [source, destination] = [source, destination].map(|end| end.parse::<SocketAddr>().unwrap());
    let ips = [ip(1, source.ip()), ip(2, destination.ip())].concat();
    let proto = [
        attribute(1, &[protocol]),
        attribute(2, &source.port().to_be_bytes()),
        attribute(3, &destination.port().to_be_bytes()),
    ]
    .concat();
    let parts = [attribute(0x8001, &ips), attribute(0x8002, &proto)].concat();
    attribute(0x8000 | kind, &parts)
}

pub(in crate::host) const VIP: &str = "10.96.0.10:53";
pub(in crate::host) const POD: &str = "10.4.0.1:5353";
pub(in crate::host) const CLIENT: &str = "10.4.0.20:40000";

pub(in crate::host) fn parts(protocol: u8) -> [Vec<u8>; 4] {
    [
        tuple(1, protocol, CLIENT, VIP),
        tuple(2, protocol, POD, CLIENT),
        // Status and timeout are ignored.
        [attribute(3, &[0; 4]), attribute(7, &[0; 4])].concat(),
        attribute(12, &[1, 2, 3, 4]),
    ]
}

pub(in crate::host) fn whole(parts: &[Vec<u8>]) -> Vec<u8> {
    message(0x100, 2, &[&[2, 0, 0, 0], &parts.concat()[..]].concat())
}

pub(in crate::host) fn status(code: i32) -> Vec<u8> {
    message(2, 0, &[code.to_ne_bytes().to_vec(), vec![0; 16]].concat())
}
