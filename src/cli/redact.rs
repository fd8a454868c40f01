//! Replaces names and addresses in texts, so that the rules can still be read: the same name or
//! address becomes the same word everywhere.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Names and addresses that were replaced so far, numbered in their order.
#[derive(Debug, Default)]
pub(super) struct Redaction {
    nodes: Vec<String>,
    namespaces: Numbers<String>,
    services: Numbers<String>,
    addresses: Numbers<IpAddr>,
}

type Numbers<T> = HashMap<T, u32>;

/// First address of replacements, of a network for providers that no cluster should announce.
const FIRST_V4: u32 = Ipv4Addr::new(100, 64, 0, 0).to_bits();
/// First address of replacements, of the network for documentation.
const FIRST_V6: u128 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0).to_bits();

impl Redaction {
    /// Creates one that also replaces these names of the node.
    pub(super) fn new(nodes: Vec<String>) -> Self {
        Self {
            nodes,
            ..Self::default()
        }
    }

    /// Adds the name of the node in the document of a daemon.
    pub(super) fn add_node_of(&mut self, status: &str) {
        let document = serde_json::from_str::<serde_json::Value>(status);
        let node = document
            .ok()
            .and_then(|document| Some(document.get("node")?.as_str()?.to_owned()));
        self.nodes.extend(node);
    }

    /// Replaces addresses, names of Services as `NAMESPACE/NAME`, and the name of the node. A name
    /// alone is replaced if it is the value of a label or a field, and was found in such a pair.
    pub(super) fn apply(&mut self, text: &str) -> String {
        let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || b".:/_-".contains(&byte);
        let mut kept = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let start = rest.bytes().position(is_of_word).unwrap_or(rest.len());
            let (between, after) = rest.split_at(start);
            kept.push_str(between);
            let end = after.bytes().position(|byte| !is_of_word(byte));
            let (word, after) = after.split_at(end.unwrap_or(after.len()));
            rest = after;
            let is_value = between.ends_with('"') && after.starts_with('"');
            let is_key = after.starts_with("\":") || after.starts_with("\" :");
            self.apply_to_word(word, is_value && !is_key, &mut kept);
        }
        kept
    }

    /// Appends a word or its replacement. Of `FLAG:VALUE`, both are looked at.
    fn apply_to_word(&mut self, word: &str, is_value: bool, kept: &mut String) {
        let bare = word.trim_end_matches(['.', ':']);
        let after = word.get(bare.len()..).unwrap_or_default();
        if let Some(replacement) = self.replacement(bare, is_value) {
            kept.push_str(&replacement);
        } else if let Some((flag, value)) = bare.split_once(':') {
            kept.push_str(flag);
            kept.push(':');
            self.apply_to_word(value, is_value, kept);
        } else {
            kept.push_str(bare);
        }
        kept.push_str(after);
    }

    fn replacement(&mut self, word: &str, is_value: bool) -> Option<String> {
        if self.nodes.iter().any(|node| node == word) {
            return Some("node".to_owned());
        }
        if let Some((address, rest)) = leading_address(word) {
            return Some(format!("{}{rest}", self.address(address)));
        }
        if let Some((namespace, service, rest)) = service_name(word) {
            let namespace = number(&mut self.namespaces, namespace.to_owned());
            let service = number(&mut self.services, service.to_owned());
            return Some(format!("namespace-{namespace}/service-{service}{rest}"));
        }
        let known = |numbers: &Numbers<String>, kind: &str| {
            let number = numbers.get(word).filter(|_| is_value)?;
            Some(format!("{kind}-{number}"))
        };
        known(&self.services, "service").or_else(|| known(&self.namespaces, "namespace"))
    }

    fn address(&mut self, address: IpAddr) -> IpAddr {
        if address.is_loopback() || address.is_unspecified() {
            return address;
        }
        let number = number(&mut self.addresses, address);
        match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits(FIRST_V4.saturating_add(number)).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(FIRST_V6 + u128::from(number)).into(),
        }
    }
}

/// Returns the number of a name or an address, the next one if it is new.
fn number<T: Eq + std::hash::Hash>(numbers: &mut Numbers<T>, key: T) -> u32 {
    let next = u32::try_from(numbers.len() + 1).unwrap_or(u32::MAX);
    *numbers.entry(key).or_insert(next)
}

/// Splits `10.4.0.1`, `10.4.0.1:80`, `10.4.0.0/16` or one with an IPv6 address after the address.
fn leading_address(word: &str) -> Option<(IpAddr, &str)> {
    let ends = [Some(word.len()), word.find('/'), word.rfind(':')];
    ends.into_iter().flatten().find_map(|end| {
        let (address, rest) = word.split_at_checked(end)?;
        let is_port = rest.starts_with(':');
        let address: IpAddr = address.parse().ok()?;
        (!is_port || address.is_ipv4()).then_some((address, rest))
    })
}

/// Splits `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`; `None` for rates, masks and paths.
fn service_name(word: &str) -> Option<(&str, &str, &str)> {
    let (namespace, rest) = word.split_once('/')?;
    let (service, port) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && label.bytes().any(|byte| byte.is_ascii_lowercase())
            && !label.starts_with("0x")
    };
    (is_label(namespace) && is_label(service)).then_some((namespace, service, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut redaction = Redaction::new(vec!["node1".to_owned()]);
        let again = format!("{text}\n{text}");
        let twice = format!("{expected}\n{expected}");
        assert_eq!(redaction.apply(&again), twice);
    }

    #[test]
    fn names_and_addresses_are_replaced_in_rules() {
        check(
            "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"shop/web:http cluster \
             IP\" -m tcp --dport 80 -j KUBE-SVC-ABC",
            "-A KUBE-SERVICES -d 100.64.0.1/32 -p tcp -m comment --comment \
             \"namespace-1/service-1:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-ABC",
        );
        check(
            "--to-destination [fd00::7]:8080 --to-destination 10.4.0.12:8080 -s fd00::/48",
            "--to-destination [2001:db8::1]:8080 --to-destination 100.64.0.2:8080 -s 2001:db8::3/48",
        );
        for kept in [
            "-m mark --mark 0x4000/0x4000 -m limit --limit 5/min -s 127.0.0.0/8 -d ::1/128",
            "iptables v1.8.9 at 16:50:01 on Linux 6.1.0-25-amd64, see /var/lib/deltaproxy.",
        ] {
            check(kept, kept);
        }
    }

    #[test]
    fn names_alone_are_replaced_as_values() {
        check(
            "{\"services\":[\"shop/web\"],\"node\":\"node1\",\"web\":1} \
             {namespace=\"shop\",service=\"web\",port=\"http\"} web",
            "{\"services\":[\"namespace-1/service-1\"],\"node\":\"node\",\"web\":1} \
             {namespace=\"namespace-1\",service=\"service-1\",port=\"http\"} web",
        );
        check(
            "cidr:10.0.0.0/12,fd00::/48 name:node1",
            "cidr:100.64.0.1/12,2001:db8::2/48 name:node",
        );
        check(
            "node1 has 10.0.0.1, and 10.0.0.1: see shop/web.",
            "node has 100.64.0.1, and 100.64.0.1: see namespace-1/service-1.",
        );
    }
}
