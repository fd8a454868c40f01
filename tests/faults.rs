//! Faults that the conformance suite has to find: each is put into a copy of the sources, and the
//! suite has to fail there for the right reason.
//!
//! `cargo test --test all faults -- --ignored --nocapture` tries them all (about a minute each),
//! and `FAULT=name` one of them. The check that each still fits the sources runs always.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One wrong line.
struct Fault {
    name: &'static str,
    file: &'static str,
    /// Is in the file once.
    right: &'static str,
    wrong: &'static str,
}

const fn fault(
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
) -> Fault {
    Fault {
        name,
        file,
        right,
        wrong,
    }
}

const FAULTS: &[Fault] = &[
    fault(
        "a comment is dropped",
        "src/render/service/chains.rs",
        "hairpin = hairpin.bare_comment(plan.name);",
        "let _ = &plan.name;",
    ),
    fault(
        "a probability is wrong",
        "src/render/service/chains.rs",
        "even_share(count - position)",
        "even_share(count)",
    ),
    fault(
        "hairpin traffic is not masqueraded",
        "src/render/service/chains.rs",
        "hairpin.source(candidate.endpoint.ip).jump(KUBE_MARK_MASQ);",
        r#"hairpin.source(candidate.endpoint.ip).jump("RETURN");"#,
    ),
    fault(
        "policies are swapped",
        "src/render/service/plan.rs",
        "TrafficPolicy::Cluster => self.chain(ChainKind::Cluster),",
        "TrafficPolicy::Cluster => self.chain(ChainKind::Local),",
    ),
    fault(
        "what has no local endpoint is refused",
        "src/render/service/plan.rs",
        "if !self.selection.has_local => Disposition::Drop,",
        "if !self.selection.has_local => Disposition::Reject,",
    ),
    fault(
        "source ranges do not count",
        "src/render/service/plan.rs",
        "&& !self.service.source_ranges.is_empty()",
        "&& self.service.source_ranges.is_empty()",
    ),
    fault(
        "the node's own way through a load balancer is missing",
        "src/render/service/chains.rs",
        ".any(|range| range.contains(&options.node_ip))",
        ".any(|_| false)",
    ),
    fault(
        "a pod's short cut under policy Local is missing",
        "src/render/service/chains.rs",
        "                    .if_local(&options.local_traffic)\n                    .jump_to_service_chain(cluster);",
        "                    .if_local(&options.local_traffic)\n                    .jump(\"RETURN\");",
    ),
    fault(
        "affinity is not remembered",
        "src/render/service/chains.rs",
        "if plan.service.affinity.is_some() {",
        "if false {",
    ),
    fault(
        "the way to NodePorts includes loopback",
        "src/render/fixed_chains.rs",
        r#"IpFamily::V6 => rule.words("! -d ::1/128"),"#,
        "IpFamily::V6 => rule,",
    ),
    fault(
        "invalid packets are forwarded",
        "src/render/fixed_chains.rs",
        "    if options.drops_invalid_packets {\n        let rule",
        "    if !options.drops_invalid_packets {\n        let rule",
    ),
    fault(
        "a terminating duplicate wins",
        "src/select.rs",
        "if is_same && !later.endpoint.is_terminating {",
        "if is_same {",
    ),
    fault(
        "endpoints are in the order of their numbers",
        "src/select.rs",
        "self.as_bytes().cmp(other.as_bytes())",
        "(self.len, self.as_bytes()).cmp(&(other.len, other.as_bytes()))",
    ),
    fault(
        "zone hints come before node hints",
        "src/select.rs",
        "_ if tally.all_have_node && tally.some_names_node => Self::SameNode,",
        "_ if tally.all_have_node && tally.some_names_node && !tally.all_have_zone => Self::SameNode,",
    ),
    fault(
        "a serving endpoint is a fallback",
        "src/select.rs",
        "endpoint.is_serving && endpoint.is_terminating",
        "endpoint.is_serving",
    ),
    fault(
        "terminating endpoints never serve locally",
        "src/select.rs",
        "            is_fallback(endpoint)\n        };",
        "            false\n        };",
    ),
    fault(
        "a changed Service is not marked",
        "src/tracker/dirty.rs",
        "            None if before.as_ref() != now => {",
        "            None if before.is_some() != now.is_some() => {",
    ),
    fault(
        "a removed slice is not marked",
        "src/tracker/track.rs",
        "        self.replace_slice(service, name, None);",
        "        let _ = name;",
    ),
    fault(
        "a new zone changes nothing",
        "src/sync/schedule.rs",
        "(before.topology != after.topology)",
        "(before.topology.zone.is_none() && after.topology.zone.is_some())",
    ),
    fault(
        "stale chains are kept",
        "src/render/payload/partial.rs",
        "self.deleted.extend(recorded.filter(is_stale));",
        "self.deleted.extend(recorded.filter(is_stale).take(0));",
    ),
    fault(
        "stale dispatch rules are kept",
        "src/render/applied_state.rs",
        "before.ne(after.iter().filter(of_chain))",
        "before.count() < after.iter().filter(of_chain).count()",
    ),
    fault(
        "dispatch rules of a Service are in the wrong order",
        "src/render/applied_state.rs",
        "let rules = services.flat_map(|service| &service.dispatch);",
        "let rules = services.flat_map(|service| service.dispatch.iter().rev());",
    ),
    fault(
        "a changed chain is taken for the same",
        "src/rules/grammar/digest.rs",
        "self.sum = HASH.hash_one((self.sum, digest));",
        "self.sum = HASH.hash_one((self.sum, digest.is_power_of_two()));",
    ),
    fault(
        "the threshold is a hundred too low",
        "src/render/options.rs",
        "if endpoints > options.large_cluster_endpoints {",
        "if endpoints + 100 > options.large_cluster_endpoints {",
    ),
    fault(
        "a proxied load balancer address is captured",
        "src/ingest/field.rs",
        "unwrap_or(\"VIP\") == \"VIP\"",
        "unwrap_or(\"VIP\") != \"Nobody\"",
    ),
];

/// What is run on each, from the quickest to the slowest, until one finds it.
const SUITE: [&str; 4] = [
    "every_feature",
    "random_histories_leave",
    "random_histories_around",
    "differences::",
];

#[test]
fn every_fault_still_fits() {
    for fault in FAULTS {
        let text = fs::read_to_string(root().join(fault.file)).unwrap();
        let found = text.matches(fault.right).count();
        assert_eq!(
            found, 1,
            "`{}` in {}: {}",
            fault.name, fault.file, fault.right
        );
    }
}

#[test]
#[ignore = "builds the program once for every fault"]
fn every_fault_is_found() {
    let only = std::env::var("FAULT").ok();
    let copy = root().join("target/faults/sources");
    copy_sources(&copy);
    let mut missed = Vec::new();
    for fault in FAULTS {
        if only.as_ref().is_some_and(|only| only != fault.name) {
            continue;
        }
        match find(fault, &copy) {
            Some(test) => println!("found by {test:24} {}", fault.name),
            None => missed.push(fault.name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

/// The part of the suite that fails because of different rules.
fn find(fault: &Fault, copy: &Path) -> Option<&'static str> {
    let file = copy.join(fault.file);
    let right = fs::read_to_string(&file).unwrap();
    fs::write(&file, right.replacen(fault.right, fault.wrong, 1)).unwrap();
    let found = SUITE.into_iter().find(|test| {
        let said = conformance(copy, test);
        assert!(
            said.contains("test result:"),
            "`{}` was not run: {said}",
            fault.name
        );
        said.contains("test result: FAILED") && said.contains("variant `")
    });
    fs::write(&file, right).unwrap();
    found
}

/// What a part of the suite says of the copy.
fn conformance(copy: &Path, test: &str) -> String {
    let programs = std::env::var("KUBE_BIN_DIR");
    let output = Command::new(env!("CARGO"))
        .args(["test", "--test", "all", &format!("conformance::{test}")])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", root().join("target/faults"))
        .env("REQUIRE_KERNEL", "1")
        .env(
            "KUBE_BIN_DIR",
            programs.map_or(root().join(".cache/kube"), PathBuf::from),
        )
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// What git would commit.
fn copy_sources(to: &Path) {
    let list = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output()
        .unwrap();
    for file in String::from_utf8(list.stdout).unwrap().lines() {
        let target = to.join(file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(root().join(file), target).unwrap();
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
