//! Two saved rulesets side by side, as text: none of the crate's own reading takes part.
//!
//! Everything counts except the numbers of packets and bytes, and one order. kube-proxy walks its
//! Services as a Go map gives them, anew in each sync, so the order of *service ports* in a
//! dispatch chain is undefined. What is defined there, and is compared: the rules of one service
//! port among themselves, and that the rules for NodePorts come last. The addresses of those are
//! gathered from a set, so their order is undefined, too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Chains with rules of many Services.
const DISPATCH: [(&str, &str); 6] = [
    ("filter", "KUBE-SERVICES"),
    ("filter", "KUBE-EXTERNAL-SERVICES"),
    ("filter", "KUBE-PROXY-FIREWALL"),
    ("filter", "KUBE-NODEPORTS"),
    ("nat", "KUBE-SERVICES"),
    ("nat", "KUBE-NODEPORTS"),
];

/// How the comment of the rules for NodePorts begins.
const TAIL: &str = "kubernetes service nodeports";

/// The dispatch chain that a chain of a tree belongs to, whose names have a slash.
fn tree_of(table: &str, chain: &str) -> Option<&'static str> {
    let external = match table {
        "nat" => "KUBE-SERVICES",
        _ => "KUBE-EXTERNAL-SERVICES",
    };
    let starts = [
        ("KUBE-SVC-tcp", "KUBE-NODEPORTS"),
        ("KUBE-SVC-udp", "KUBE-NODEPORTS"),
        ("KUBE-SVC-sctp", "KUBE-NODEPORTS"),
        ("KUBE-SVC-", "KUBE-SERVICES"),
        ("KUBE-EXT-", external),
        ("KUBE-FW-", "KUBE-PROXY-FIREWALL"),
    ];
    let of = starts.iter().find(|(start, _)| chain.starts_with(start));
    of.filter(|_| chain.contains('/')).map(|(_, of)| *of)
}

/// A table and a chain of it.
type Name = (String, String);

/// The rules of a namespace and family, ready to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The policy (`-` for our own chains) and the rules of each chain.
    chains: BTreeMap<Name, (String, Vec<String>)>,
    /// Some dispatch chain is a tree, which has the rules of one service port in the order of their
    /// addresses.
    has_trees: bool,
}

impl Rules {
    /// Reads what `iptables-save` prints.
    pub fn read(saved: &str) -> Self {
        let mut chains = BTreeMap::new();
        let mut has_trees = false;
        let mut table = "";
        for line in saved.lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = name;
            } else if let Some(chain) = line.strip_prefix(':') {
                let mut words = chain.split(' ');
                let (name, policy) = (words.next().unwrap(), words.next().unwrap());
                if tree_of(table, name).is_some() {
                    has_trees = true;
                    continue;
                }
                let place = (table.to_owned(), name.to_owned());
                chains.insert(place, (policy.to_owned(), Vec::new()));
            } else if let Some(rule) = line.strip_prefix("-A ") {
                let (name, rule) = rule.split_once(' ').unwrap();
                if tree_of(table, rule.rsplit(' ').next().unwrap()).is_some() {
                    // Leads to rules that follow.
                    continue;
                }
                let name = tree_of(table, name).unwrap_or(name);
                let place = (table.to_owned(), name.to_owned());
                let line = format!("-A {name} {rule}");
                chains.get_mut(&place).unwrap().1.push(line);
            }
        }
        for (table, chain) in DISPATCH {
            if let Some((_, rules)) = chains.get_mut(&(table.to_owned(), chain.to_owned())) {
                sort_dispatch(rules);
            }
        }
        Self { chains, has_trees }
    }

    /// The same with the rules of dispatch chains in one order, whatever it is.
    fn with_sorted_dispatch(mut self) -> Self {
        for (table, chain) in DISPATCH {
            if let Some((_, rules)) = self.chains.get_mut(&(table.to_owned(), chain.to_owned())) {
                rules.sort();
            }
        }
        self
    }

    /// The same without one rule of another program, and with each built-in chain in one order: a
    /// jump that was lost is put back on top.
    pub fn after_faults(mut self, neighbor: &str) -> Self {
        for (policy, rules) in self.chains.values_mut() {
            rules.retain(|rule| !rule.contains(neighbor));
            if policy != "-" {
                rules.sort();
            }
        }
        self
    }

    /// All rules but those whose comment speaks of `word`.
    pub fn without(&self, word: &str) -> Vec<String> {
        let rules = self.chains.values().flat_map(|(_, rules)| rules);
        let rules = rules.filter(|rule| !rule.contains(word));
        rules.cloned().collect()
    }

    /// What differs, chain by chain: lines of `self` with `-`, lines of `other` with `+`. Empty if
    /// nothing does.
    pub fn differences(&self, other: &Self) -> String {
        if self.has_trees || other.has_trees {
            let mut both = [self, other].map(|rules| rules.clone().with_sorted_dispatch());
            for rules in &mut both {
                rules.has_trees = false;
            }
            return both[0].differences(&both[1]);
        }
        let mut names: Vec<&Name> = self.chains.keys().chain(other.chains.keys()).collect();
        names.sort();
        names.dedup();
        let mut text = String::new();
        for name in names {
            let (left, right) = (self.chains.get(name), other.chains.get(name));
            if left != right {
                let (table, chain) = name;
                let _ = writeln!(text, "{table} {chain}:");
                text += &side('-', left);
                text += &side('+', right);
            }
        }
        text
    }
}

fn side(sign: char, chain: Option<&(String, Vec<String>)>) -> String {
    let Some((policy, rules)) = chain else {
        return format!("  {sign} (no such chain)\n");
    };
    let mut text = format!("  {sign} (policy {policy}, {} rules)\n", rules.len());
    for rule in rules {
        let _ = writeln!(text, "  {sign} {rule}");
    }
    text
}

/// Service ports in the order of their names, each with its rules in the kernel's order, and what
/// comes from the first NodePort rule on in the kernel's order if anything else is behind it.
fn sort_dispatch(rules: &mut [String]) {
    let is_tail = |rule: &String| rule.contains(TAIL);
    let first_tail = rules.iter().position(is_tail).unwrap_or(rules.len());
    let (services, tail) = rules.split_at_mut(first_tail);
    services.sort_by(|a, b| service_port(a).cmp(service_port(b)));
    if tail.iter().all(is_tail) {
        tail.sort();
    }
}

/// The first word of the comment: in a dispatch chain, the service port's name.
fn service_port(rule: &str) -> &str {
    let (_, comment) = rule.split_once("--comment ").unwrap_or_default();
    let comment = comment.strip_prefix('"').unwrap_or(comment);
    comment.split([' ', '"']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = "\
*nat
:KUBE-SERVICES - [3:180]
:KUBE-SVC-A - [0:0]
-A KUBE-SERVICES -d 1.1.1.1/32 -m comment --comment \"ns/b:p cluster IP\" -j KUBE-SVC-B
-A KUBE-SERVICES -d 1.1.1.2/32 -m comment --comment \"ns/a:p external IP\" -j KUBE-EXT-A
-A KUBE-SERVICES -d 1.1.1.3/32 -m comment --comment \"ns/a:p loadbalancer IP\" -j KUBE-FW-A
-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: last\" -j KUBE-NODEPORTS
-A KUBE-SVC-A -j KUBE-SEP-1
-A KUBE-SVC-A -j KUBE-SEP-2
COMMIT
";

    #[track_caller]
    fn check(edit: impl Fn(&mut Vec<&str>), equal: bool) {
        let mut lines: Vec<&str> = SAVED.lines().collect();
        edit(&mut lines);
        let edited = lines.join("\n");
        let text = Rules::read(SAVED).differences(&Rules::read(&edited));
        assert_eq!(text.is_empty(), equal, "{edited}\n{text}");
    }

    #[test]
    fn only_undefined_order_and_counters_are_free() {
        check(|_| {}, true);
        check(|lines| lines[1] = ":KUBE-SERVICES - [0:0]", true);
        // Another service port first.
        check(|lines| lines[3..6].rotate_left(1), true);
        // The rules of one service port exchanged.
        check(|lines| lines.swap(4, 5), false);
        // Something behind the rule for NodePorts.
        check(|lines| lines.swap(5, 6), false);
        // Endpoints exchanged.
        check(|lines| lines.swap(7, 8), false);
        check(|lines| lines[1] = ":KUBE-SERVICES ACCEPT [0:0]", false);
        check(|lines| _ = lines.remove(7), false);
        check(|lines| lines.insert(3, ":KUBE-SVC-STALE - [0:0]"), false);
        check(
            |lines| lines.push("*mangle\n:KUBE-PROXY-CANARY - [0:0]"),
            false,
        );
    }
}
