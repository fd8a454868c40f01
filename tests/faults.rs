//! Faults that the conformance suite has to find: each is put into a copy of the sources, and the
//! suite has to fail there for the right reason.
//!
//! `cargo test --test all faults -- --ignored --nocapture` tries them all (about a minute each),
//! and `FAULT=name` one of them. The check that each still fits the sources runs always.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Wrong lines at one place.
struct Fault {
    name: &'static str,
    file: &'static str,
    /// Is in the file once.
    right: String,
    wrong: String,
}

/// The file of each fault, its name, and what is right and wrong, as in a patch.
const FAULTS: &str = r#"
# src/render/service/chains.rs: a comment is dropped
-hairpin = hairpin.bare_comment(plan.name);
+let _ = &plan.name;
# src/render/service/chains.rs: a probability is wrong
-even_share(count - position)
+even_share(count)
# src/render/service/chains.rs: hairpin traffic is not masqueraded
-hairpin.source(candidate.endpoint.ip).jump(KUBE_MARK_MASQ);
+hairpin.source(candidate.endpoint.ip).jump("RETURN");
# src/render/service/plan.rs: policies are swapped
-TrafficPolicy::Cluster => self.chain(ChainKind::Cluster),
+TrafficPolicy::Cluster => self.chain(ChainKind::Local),
# src/render/service/plan.rs: what has no local endpoint is refused
-if !self.selection.has_local => Disposition::Drop,
+if !self.selection.has_local => Disposition::Reject,
# src/render/service/plan.rs: source ranges do not count
-&& !self.service.source_ranges.is_empty()
+&& self.service.source_ranges.is_empty()
# src/render/service/chains.rs: the node's own way through a load balancer is missing
-.any(|range| range.contains(&options.node_ip))
+.any(|_| false)
# src/render/service/chains.rs: a pod's short cut under policy Local is missing
-                    .if_local(&options.local_traffic)
-                    .jump_to_service_chain(cluster);
+                    .if_local(&options.local_traffic)
+                    .jump("RETURN");
# src/render/service/chains.rs: affinity is not remembered
-if plan.service.affinity.is_some() {
+if false {
# src/render/fixed_chains.rs: the way to NodePorts includes loopback
-IpFamily::V6 => rule.words("! -d ::1/128"),
+IpFamily::V6 => rule,
# src/render/fixed_chains.rs: invalid packets are forwarded
-    if options.drops_invalid_packets {
-        let rule
+    if !options.drops_invalid_packets {
+        let rule
# src/select.rs: a terminating duplicate wins
-if is_same && !later.endpoint.is_terminating {
+if is_same {
# src/select.rs: endpoints are in the order of their numbers
-self.as_bytes().cmp(other.as_bytes())
+(self.len, self.as_bytes()).cmp(&(other.len, other.as_bytes()))
# src/select.rs: zone hints come before node hints
-_ if tally.all_have_node && tally.some_names_node => Self::SameNode,
+_ if tally.all_have_node && tally.some_names_node && !tally.all_have_zone => Self::SameNode,
# src/select.rs: a serving endpoint is a fallback
-endpoint.is_serving && endpoint.is_terminating
+endpoint.is_serving
# src/select.rs: terminating endpoints never serve locally
-            is_fallback(endpoint)
-        };
+            false
+        };
# src/tracker/dirty.rs: a changed Service is not marked
-            None if before.as_ref() != now => {
+            None if before.is_some() != now.is_some() => {
# src/tracker/track.rs: a removed slice is not marked
-        self.replace_slice(service, name, None);
+        let _ = name;
# src/sync/schedule.rs: a new zone changes nothing
-(before.topology != after.topology)
+(before.topology.zone.is_none() && after.topology.zone.is_some())
# src/render/payload/partial.rs: stale chains are kept
-self.deleted.extend(recorded.filter(is_stale));
+self.deleted.extend(recorded.filter(is_stale).take(0));
# src/render/applied_state.rs: stale dispatch rules are kept
-before.ne(after.iter().filter(of_chain))
+before.count() < after.iter().filter(of_chain).count()
# src/render/applied_state.rs: dispatch rules of a Service are in the wrong order
-let rules = services.flat_map(|service| &service.dispatch);
+let rules = services.flat_map(|service| service.dispatch.iter().rev());
# src/rules/grammar/digest.rs: a changed chain is taken for the same
-self.sum = HASH.hash_one((self.sum, digest));
+self.sum = HASH.hash_one((self.sum, digest.is_power_of_two()));
# src/render/options.rs: the threshold is a hundred too low
-if endpoints > options.large_cluster_endpoints {
+if endpoints + 100 > options.large_cluster_endpoints {
# src/ingest/field.rs: a proxied load balancer address is captured
-unwrap_or("VIP") == "VIP"
+unwrap_or("VIP") != "Nobody"
"#;

/// Reads all of them.
fn faults() -> Vec<Fault> {
    let faults = FAULTS.split("\n# ").skip(1).map(|text| {
        let (heading, lines) = text.split_once('\n').unwrap();
        let (file, name) = heading.split_once(": ").unwrap();
        let side = |sign: char| {
            let side = lines.lines().filter_map(|line| line.strip_prefix(sign));
            let side: Vec<&str> = side.collect();
            assert!(!side.is_empty(), "{name}: no line with `{sign}`");
            side.join("\n")
        };
        assert!(
            lines.lines().all(|line| line.starts_with(['-', '+'])),
            "{name}"
        );
        Fault {
            name,
            file,
            right: side('-'),
            wrong: side('+'),
        }
    });
    faults.collect()
}

/// What is run on each, from the quickest to the slowest, until one finds it.
const SUITE: [&str; 4] = [
    "every_feature",
    "random_histories_leave",
    "random_histories_around",
    "differences::",
];

#[test]
fn every_fault_still_fits() {
    for fault in faults() {
        let text = fs::read_to_string(root().join(fault.file)).unwrap();
        let found = text.matches(&fault.right).count();
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
    for fault in faults() {
        if only.as_ref().is_some_and(|only| only != fault.name) {
            continue;
        }
        match find(&fault, &copy) {
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
    fs::write(&file, right.replacen(&fault.right, &fault.wrong, 1)).unwrap();
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
