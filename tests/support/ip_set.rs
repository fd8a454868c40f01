//! IP sets in a namespace, by netlink: the program `ipset` is on few machines.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

use super::netns::Netns;

// Linux: include/uapi/linux/netfilter/ipset/ip_set.h
const CREATE: u16 = 2;
const ADD: u16 = 9;

/// Makes a set of type `hash:net`, and adds networks such as `10.0.0.0/8`.
pub fn create(netns: &Netns, name: &str, networks: &[&str]) {
    let set = [
        attribute(1, &[6]),
        attribute(2, &[name.as_bytes(), b"\0"].concat()),
    ];
    let set = set.concat();
    let kind = [
        attribute(3, b"hash:net\0"),
        attribute(4, &[0]),
        attribute(5, &[2]),
    ];
    netns.enter(|| {
        send(
            CREATE,
            &[set.clone(), kind.concat(), attribute(0x8000 | 7, &[])].concat(),
        );
        for network in networks {
            let (ip, length) = network.split_once('/').unwrap();
            let ip: Ipv4Addr = ip.parse().unwrap();
            let element = [
                attribute(0x8000 | 1, &attribute(0x4000 | 1, &ip.octets())),
                attribute(3, &[length.parse().unwrap()]),
            ];
            let element = attribute(0x8000 | 7, &element.concat());
            // Elements have the number of a line.
            let line = attribute(0x4000 | 9, &[0; 4]);
            send(ADD, &[set.clone(), element, line].concat());
        }
    });
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Sends a command of the subsystem, and reads the acknowledgment.
#[track_caller]
fn send(command: u16, attributes: &[u8]) {
    let length = u32::try_from(20 + attributes.len()).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend((6 << 8 | command).to_ne_bytes());
    // A request that is acknowledged, and creates what is not there.
    bytes.extend(0x605_u16.to_ne_bytes());
    bytes.extend([0; 8]);
    // The family IPv4.
    bytes.extend([2, 0, 0, 0]);
    bytes.extend(attributes);
    let (raw, flags) = (SockType::Raw, SockFlag::SOCK_CLOEXEC);
    let netlink = SockProtocol::NetlinkNetFilter;
    let socket = socket(AddressFamily::Netlink, raw, flags, netlink).unwrap();
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &bytes, &kernel, MsgFlags::empty()).unwrap();
    let mut reply = [0; 1024];
    let received = recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty()).unwrap();
    assert!(received >= 20, "a short reply");
    assert_eq!(reply[16..20], [0; 4], "error of command {command}");
}
