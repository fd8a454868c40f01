//! Tests of targets that are kept as text: translations by rules of other programs.

use super::trace::{packet, traced_node};
use crate::rules::{RuleSet, trace};

/// Paths of TCP to port 80 of a node, a rule of the nat table, and what becomes of the packet.
const TABLE: &str = "\
# Destinations are translated to one address.
outside to beyond    | -A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.7:8080 --random --persistent | to 10.0.0.7:8080, source kept
outside to beyond    | -A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.7 --random                   | to 10.0.0.7:80, source kept
outside to beyond    | -A PREROUTING -p tcp -j DNAT --to-destination :8080                               | to 203.0.113.9:8080, source kept
outside to beyond/v6 | -A PREROUTING -p tcp -j DNAT --to-destination [fd00::7]:8080 --random             | to [fd00::7]:8080, source kept
outside to beyond    | -A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.1-10.0.0.9                   | unsupported
outside to beyond    | -A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.1:80-90                      | unsupported
outside to beyond    | -A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.1-10.0.0.9:80                | unsupported

# REDIRECT translates to the node.
outside to beyond    | -A PREROUTING -p tcp -j REDIRECT --to-ports 8080      | to 192.168.0.2:8080, source kept
outside to beyond/v6 | -A PREROUTING -j REDIRECT                             | to [fd00::2]:80, source kept
node to beyond       | -A OUTPUT -p tcp -j REDIRECT --to-ports 8080          | to 127.0.0.1:8080, source kept
outside to beyond    | -A PREROUTING -p tcp -j REDIRECT --to-ports 8080-8090 | unsupported

# NETMAP translates whole networks.
outside to beyond    | -A PREROUTING -d 203.0.113.0/24 -j NETMAP --to 10.5.0.0/24 | to 10.5.0.9:80, source kept
outside to beyond    | -A POSTROUTING -j NETMAP --to 10.5.0.0/24                  | passed, masqueraded

# Sources are translated on the way in. Packets of the node to itself passed POSTROUTING.
outside to node      | -A INPUT -j SNAT --to-source 10.9.9.9 | passed, masqueraded
node to node         | -A INPUT -j SNAT --to-source 10.9.9.9 | passed, source kept
outside to beyond    | -A INPUT -j SNAT --to-source 10.9.9.9 | passed, source kept

# Targets of other programs are not supported.
outside to beyond    | -A PREROUTING -p tcp -j SYNPROXY --mss 1460   | unsupported
outside to beyond    | -A PREROUTING -p tcp -j NFQUEUE --queue-num 1 | unsupported
";

#[test]
fn targets_of_other_programs_translate_or_are_not_supported() {
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for row in TABLE.lines().filter(is_row) {
        let [path, rule, expected] = row.split(" | ").map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let (source, destination) = match path {
            "outside to beyond" => ("198.51.100.1", "203.0.113.9"),
            "outside to beyond/v6" => ("2001:db8::1", "2001:db8:9::9"),
            "outside to node" => ("198.51.100.1", "192.168.0.2"),
            "node to node" => ("192.168.0.2", "192.168.0.2"),
            "node to beyond" => ("192.168.0.2", "203.0.113.9"),
            other => panic!("{other}"),
        };
        let mut all = RuleSet::default();
        let applied = all.apply(&format!("*nat\n{rule}\nCOMMIT\n"));
        assert!(applied.is_ok(), "{row}: {applied:?}");
        let packet = packet(source, destination, 80);
        let found = trace(&all, &packet, &traced_node());
        let [outcome] = &found[..] else {
            panic!("{row}: {found:?}");
        };
        assert!(outcome.undecided.is_empty(), "{row}");
        let unclear =
            "unclear: a rule in nat PREROUTING matches, but its target is not supported: ";
        let expected = match expected {
            "unsupported" => rule.replace("-A PREROUTING ", unclear),
            verdict => verdict.to_owned(),
        };
        assert_eq!(outcome.verdict.to_string(), expected, "{row}");
    }
}
