//! Upstream's cases as one table, and a few more.
//!
//! Upstream: `pkg/proxy/topology_test.go`, `TestCategorizeEndpoints` (v1.37)

use super::*;

/// The policies for internal and external traffic, and from where the Service is reached; the zone
/// of the node; whether any endpoint could answer at all, and those for policy Cluster and for
/// policy Local; all endpoints by number. `-`: none.
const TABLE: &str = "\
# Without hints every ready endpoint is used.
Cluster Cluster inside  | a | none -     -   |
Cluster Cluster inside  | a | any  1,2   -   | 1 ready, 2 ready
Cluster Cluster inside  | a | any  1     -   | 1 ready, 2 unready
Cluster Cluster inside  | a | none -     -   | 1 unready

# Zone hints count if all ready endpoints have them and one means this zone.
Cluster Cluster inside  | a | any  1,3   -   | 1 ready zone:a, 2 ready zone:b, 3 ready zone:a zone:c
Cluster Cluster inside  | c | any  3     -   | 1 ready zone:a, 2 ready zone:b, 3 ready zone:a zone:c
Cluster Cluster inside  | d | any  1,2   -   | 1 ready zone:a, 2 ready zone:b
Cluster Cluster inside  | - | any  1,2   -   | 1 ready zone:a, 2 ready zone:b
Cluster Cluster inside  |   | any  1,2   -   | 1 ready zone:a, 2 ready zone:b
Cluster Cluster inside  | a | any  1,2   -   | 1 ready zone:a, 2 ready
Cluster Cluster inside  | a | any  1     -   | 1 ready zone:a, 2 ready zone:b, 3 unready
Cluster Cluster inside  | a | any  2     -   | 1 unready zone:a, 2 ready zone:b

# Node hints come before zone hints.
Cluster Cluster inside  | a | any  1     -   | 1 ready node:here, 2 ready node:elsewhere
Cluster Cluster inside  | - | any  1     -   | 1 ready node:here, 2 ready node:elsewhere
Cluster Cluster inside  | a | any  1     -   | 1 ready node:here zone:b, 2 ready node:elsewhere zone:a
Cluster Cluster inside  | a | any  2     -   | 1 ready node:elsewhere zone:b, 2 ready node:elsewhere zone:a
Cluster Cluster inside  | a | any  2     -   | 1 ready node:here zone:b, 2 ready zone:a
Cluster Cluster inside  | a | any  1,2   -   | 1 ready node:here, 2 ready zone:a
Cluster Cluster inside  | a | any  1,2,3 -   | 1 ready zone:a node:here, 2 ready, 3 ready zone:a node:elsewhere
Cluster Cluster inside  | a | any  1,3   -   | 1 ready zone:a node:elsewhere, 2 ready zone:b node:elsewhere, 3 ready zone:a node:elsewhere

# Terminating endpoints serve if none is ready.
Cluster Cluster inside  | - | any  1     -   | 1 ready, 2 serving terminating
Cluster Cluster inside  | a | any  1,5   -   | 1 serving terminating, 2 terminating, 3 serving, 4 unready, 5 serving terminating zone:b
Cluster Cluster inside  | - | none -     -   | 1 terminating
Cluster Cluster inside  | - | none -     -   | 1 serving
Cluster Cluster inside  | - | any  1     -   | 1 ready terminating

# Policies decide which lists there are.
Cluster Cluster inside  | a | any  1,2   -   | 1 ready here, 2 ready, 3 unready here
Cluster Local   inside  | a | any  1,2   -   | 1 ready here, 2 ready, 3 unready here
Cluster Cluster outside | a | any  1,2   -   | 1 ready here, 2 ready, 3 unready here
Cluster Local   outside | a | any  1,2   1   | 1 ready here, 2 ready, 3 unready here
Local   Cluster inside  | a | any  -     1   | 1 ready here, 2 ready, 3 unready here
Local   Local   inside  | a | any  -     1   | 1 ready here, 2 ready, 3 unready here
Local   Cluster outside | a | any  1,2   1   | 1 ready here, 2 ready, 3 unready here
Local   Local   outside | a | any  1,2   1   | 1 ready here, 2 ready, 3 unready here

# Policy Local knows when others could answer.
Local   Cluster inside  | - | any  -     -   | 1 ready, 2 ready
Cluster Local   outside | - | any  1,2   -   | 1 ready, 2 ready
Local   Local   outside | - | any  1,2   -   | 1 ready, 2 ready
Local   Cluster inside  | - | none -     -   | 1 unready
Local   Cluster inside  | - | any  -     -   | 1 serving terminating
Local   Local   outside | - | any  1     -   | 1 serving terminating
Local   Local   outside | - | none -     -   | 1 terminating here
Local   Cluster inside  | - | none -     -   |
Local   Cluster inside  | - | any  -     1,2 | 1 ready here, 2 ready here

# It falls back to the terminating endpoints of this node alone.
Cluster Local   outside | - | any  2     1   | 1 serving terminating here, 2 ready
Cluster Local   outside | - | any  2     2   | 1 serving terminating here, 2 ready here
Cluster Local   outside | - | any  1,2   1   | 1 serving terminating here, 2 serving terminating
Cluster Local   outside | - | any  1     3   | 1 ready, 2 unready here, 3 serving terminating here, 4 serving terminating

# Hints do not apply to it: its endpoints join those that hints choose.
Cluster Local   outside | a | any  2     1   | 1 ready here zone:b, 2 ready zone:a
Cluster Local   outside | a | any  2     1   | 1 ready here node:elsewhere, 2 ready node:here
Local   Cluster inside  | a | any  -     1   | 1 ready here zone:b, 2 ready zone:a
Cluster Local   outside | a | any  1,4   1,2 | 1 ready here zone:a, 2 ready here zone:b, 3 ready zone:c, 4 ready zone:a
Local   Cluster outside | a | any  1,4   1,2 | 1 ready here zone:a, 2 ready here zone:b, 3 ready zone:c, 4 ready zone:a
Local   Local   outside | a | any  1,4   1,2 | 1 ready here zone:a, 2 ready here zone:b, 3 ready zone:c, 4 ready zone:a
";

fn policy(word: &str) -> TrafficPolicy {
    match word {
        "Local" => TrafficPolicy::Local,
        _ => TrafficPolicy::Cluster,
    }
}

#[test]
fn endpoints_are_chosen_as_by_kube_proxy() {
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for row in TABLE.lines().filter(is_row) {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [policies, zone, expected, endpoints] = columns[..] else {
            panic!("{row}");
        };
        let policies: Vec<&str> = policies.split_whitespace().collect();
        let reach = match policies[2] {
            "outside" => Reach::Outside,
            _ => Reach::Inside,
        };
        let service = service(policy(policies[0]), policy(policies[1]), reach);
        let topology = Topology {
            zone: Some(zone).filter(|zone| *zone != "-").map(Into::into),
        };
        let endpoints = endpoints.split_terminator(", ");
        let endpoints = endpoints.map(|text| endpoint(&format!("10.0.0.{text}")));
        let state = state(&[("s", 80, &endpoints.collect::<Vec<_>>())]);
        let port = &service.ports[0];
        let chosen = select(merge(&state, port), &service, port, &topology);
        let numbers = |is_used: fn(&Candidate<'_>) -> bool| {
            let used = chosen.candidates.iter().filter(|one| is_used(one));
            let numbers = used.map(|one| one.endpoint.ip.to_string().replace("10.0.0.", ""));
            let numbers: Vec<_> = numbers.collect();
            if numbers.is_empty() {
                "-".to_owned()
            } else {
                numbers.join(",")
            }
        };
        let any = if chosen.has_any { "any" } else { "none" };
        let [cluster, local] = [numbers(|one| one.in_cluster), numbers(|one| one.in_local)];
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(expected, [any, &cluster, &local], "{row}");
        assert_eq!(chosen.has_local, local != "-", "{row}");
        let is_reachable = |one: &Candidate<'_>| one.in_cluster || one.in_local;
        let mut candidates = chosen.candidates.iter();
        assert!(
            candidates.all(|one| one.is_reachable() == is_reachable(one)),
            "{row}"
        );
    }
}
