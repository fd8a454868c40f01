//! The order in which packets meet the rules of Services.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

/// One rule, as far as it says where packets go.
struct Rule<'t> {
    destination: Option<&'t str>,
    port: Option<&'t str>,
    target: &'t str,
}

/// Cluster IPs in the order of their rules, from the text of `iptables-save`.
///
/// Follows jumps and gotos from `KUBE-SERVICES` on, so that it reads a tree of chains as well as a
/// list. A rule of a Service is one that has an address and this port.
pub fn cluster_ips(saved: &str, port: u16) -> Vec<Ipv4Addr> {
    let mut chains: HashMap<&str, Vec<Rule<'_>>> = HashMap::new();
    for line in saved.lines() {
        if let Some((chain, rule)) = rule(line) {
            chains.entry(chain).or_default().push(rule);
        }
    }
    let port = port.to_string();
    let mut walk = Walk {
        port: &port,
        chains: &chains,
        visited: HashSet::new(),
        found: Vec::new(),
    };
    walk.visit("KUBE-SERVICES");
    walk.found
}

fn rule(line: &str) -> Option<(&str, Rule<'_>)> {
    let words: Vec<&str> = line.split(' ').collect();
    let behind = |flag: &str| {
        let at = words.iter().position(|word| *word == flag)?;
        words.get(at + 1).copied()
    };
    let rule = Rule {
        destination: behind("-d"),
        port: behind("--dport"),
        target: behind("-j").or_else(|| behind("-g"))?,
    };
    Some((behind("-A")?, rule))
}

struct Walk<'t> {
    port: &'t str,
    chains: &'t HashMap<&'t str, Vec<Rule<'t>>>,
    visited: HashSet<&'t str>,
    found: Vec<Ipv4Addr>,
}

impl<'t> Walk<'t> {
    fn visit(&mut self, chain: &'t str) {
        if !self.visited.insert(chain) {
            return;
        }
        for rule in self.chains.get(chain).into_iter().flatten() {
            let address = rule.destination.and_then(|text| text.strip_suffix("/32"));
            match (address, rule.port) {
                (Some(ip), Some(port)) if port == self.port => {
                    self.found.push(ip.parse().expect("an address"));
                }
                (_, Some(_)) => {}
                (_, None) => self.visit(rule.target),
            }
        }
    }
}
