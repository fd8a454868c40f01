//! Decides whether `NO_PROXY` excludes a server from the proxy of the environment.
//!
//! The matcher of `hyper-util` is not used because it follows curl: it knows no ports, and a
//! leading dot has no meaning.
//!
//! # Source
//!
//! Upstream: golang.org/x/net/http/httpproxy/proxy.go, `useProxy` (v0.49)
//!
//! Differs from upstream: names outside of ASCII are not converted to Punycode.

use std::net::IpAddr;

use ipnet::IpNet;

/// Reports whether connections to a server do not use the proxy of the environment. `localhost` and
/// loopback addresses never use it.
///
/// `list` has IP addresses, CIDRs and domains, separated by commas: `example.com` is the domain and
/// all names below it, `.example.com` and `*.example.com` only those below it, and `*` everything.
/// A port after an address or a domain limits it to that port.
pub(super) fn bypasses_proxy(list: &str, host: &str, port: u16) -> bool {
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let ip = host.parse().ok().map(|ip: IpAddr| ip.to_canonical());
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    list.split(',').any(|entry| {
        let entry = entry.trim().to_ascii_lowercase();
        is_match(&entry, &host, ip, port)
    })
}

fn is_match(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Ok(network) = entry.parse::<IpNet>() {
        return ip.is_some_and(|ip| network.contains(&ip));
    }
    let (name, only_port) = split_port(entry);
    if !only_port.is_empty() && only_port != port.to_string() {
        return false;
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return ip == Some(address.to_canonical());
    }
    if name.is_empty() || ip.is_some() {
        return false;
    }
    let domain = name.strip_prefix('*').filter(|rest| rest.starts_with('.'));
    let domain = domain.unwrap_or(name);
    match host.strip_suffix(domain) {
        Some(before) if domain.starts_with('.') => !before.is_empty(),
        Some(before) => before.is_empty() || before.ends_with('.'),
        None => false,
    }
}

/// Splits an entry into its host and its port, which is empty if there is none.
fn split_port(entry: &str) -> (&str, &str) {
    if let Some(bracketed) = entry.strip_prefix('[') {
        return bracketed.split_once("]:").unwrap_or((entry, ""));
    }
    match entry.split_once(':') {
        // Several colons are an IPv6 address.
        Some((_, rest)) if rest.contains(':') => (entry, ""),
        Some(parts) => parts,
        None => (entry, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_has_addresses_networks_domains_and_ports() {
        for (list, host, is_bypassed) in [
            ("", "api.example.com", false),
            ("*", "api.example.com", true),
            ("other, *", "10.0.0.1", true),
            // A domain, and everything below it.
            ("example.com", "example.com", true),
            ("example.com", "api.example.com", true),
            ("EXAMPLE.com", "api.Example.COM", true),
            ("example.com", "badexample.com", false),
            // Only what is below it.
            (".example.com", "example.com", false),
            (".example.com", "api.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "api.example.com", true),
            // Ports.
            ("example.com:6443", "example.com", true),
            ("example.com:443", "example.com", false),
            ("10.0.0.1:6443", "10.0.0.1", true),
            ("10.0.0.1:443", "10.0.0.1", false),
            ("[fd00::1]:6443", "[fd00::1]", true),
            ("[fd00::1]:443", "[fd00::1]", false),
            // Addresses and networks.
            (" 10.0.0.1 ,x", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.10", false),
            ("fd00::1", "[fd00:0::1]", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("fd00::/8", "[fd00::1]", true),
            ("10.0.0.0/8", "api.example.com", false),
            ("0.1", "10.0.0.1", false),
            // Entries without a host.
            (":6443,,.,", "api.example.com", false),
            // Loopback needs no entry.
            ("", "localhost", true),
            ("", "127.0.0.9", true),
            ("", "[::1]", true),
            ("", "[::ffff:127.0.0.1]", true),
        ] {
            assert_eq!(
                bypasses_proxy(list, host, 6443),
                is_bypassed,
                "{list} {host}"
            );
        }
    }
}
