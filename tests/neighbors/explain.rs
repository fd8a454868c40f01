//! Questions to `explain` about packets that rules of Docker and Calico match as well: few answers
//! are unclear, and packets show that none is wrong.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::scene::{CONTAINER, NODE, OUTSIDE, Scene};
use crate::support::daemon::Backend;
use crate::support::ip_set;
use crate::support::netns::Netns;
use crate::support::program::{PROGRAM, Ran};
use crate::support::servers::{Reply, tcp_request, udp_request};
use crate::support::{needs, tell};

/// Most answers of the questions about one program that may be unclear.
const MAX_UNCLEAR: usize = 5;

const DESTINATIONS: [&str; 8] = [
    "10.96.0.10:80",
    "10.200.0.2:30080",
    "203.0.113.10:80",
    "10.96.0.11:80",
    "10.96.0.12:80",
    "10.96.0.13:53/udp",
    "10.96.0.14:80",
    "10.200.0.2:8081",
];

/// Client and destination of packets.
struct Question<'a> {
    client: &'a Netns,
    /// Its address; `None`: that which the node chooses.
    source: Option<IpAddr>,
    destination: &'static str,
}

impl Scene {
    /// Returns each question with the reply to its packets.
    fn asked(&self) -> Vec<(Question<'_>, Reply)> {
        let clients = [
            (&self.client.netns, Some("10.4.0.20")),
            (&self.servers[0].netns, Some("10.4.0.11")),
            (&self.node.netns, None),
            (&self.outside, Some(OUTSIDE)),
            (&self.container, Some(CONTAINER)),
        ];
        let all = clients.iter().flat_map(|(client, source)| {
            DESTINATIONS.iter().map(|destination| Question {
                client,
                source: source.map(|ip| ip.parse().unwrap()),
                destination,
            })
        });
        std::thread::scope(|scope| {
            let asking = all.map(|question| scope.spawn(|| (question.ask(), question)));
            let asking: Vec<_> = asking.collect();
            let asked = asking.into_iter().map(|one| one.join().unwrap());
            asked.map(|(reply, question)| (question, reply)).collect()
        })
    }

    /// Returns the outcomes that `explain` reports, with these further flags.
    fn explained(&self, question: &Question<'_>, more: &[&str]) -> Vec<Value> {
        let mut explain = self.node.netns.command(PROGRAM);
        explain.args(["explain", question.destination, "--output=json"]);
        match question.source {
            _ if more.contains(&"--from=pod") => &mut explain,
            Some(ip) => explain.arg(format!("--source={ip}")),
            None => explain.arg("--from=node"),
        };
        let printed = Ran::of(explain.args(more)).success();
        let document: Value = serde_json::from_str(&printed).unwrap();
        let ways = &document["destinations"][0]["ways"];
        ways[0]["outcomes"].as_array().unwrap().clone()
    }
}

impl Question<'_> {
    fn ask(&self) -> Reply {
        let address = self.destination.trim_end_matches("/udp");
        let to: SocketAddr = address.parse().unwrap();
        if address == self.destination {
            tcp_request(self.client, to)
        } else {
            udp_request(self.client, to)
        }
    }

    /// Reports whether the Service has only the endpoint behind `pod11`.
    fn is_to_first_pod(&self) -> bool {
        DESTINATIONS[..3].contains(&self.destination)
    }

    fn text(&self) -> String {
        let source = self
            .source
            .map_or("the node".to_owned(), |ip| ip.to_string());
        format!("{} from {source}", self.destination)
    }

    /// Reports whether packets did as an outcome says.
    fn agrees(&self, outcome: &Value, reply: &Reply) -> bool {
        let is_node = |peer: &IpAddr| NODE.contains(&&*peer.to_string());
        match (outcome["result"].as_str().unwrap(), reply) {
            ("served" | "passed", Reply::Answer { peer, .. }) => match outcome["sees"].as_str() {
                Some("client") => self.source.map_or(is_node(peer), |source| *peer == source),
                _ => is_node(peer),
            },
            // Nothing listens on a port of the node that no rule translates.
            (found, Reply::Refused) => ["rejected", "local"].contains(&found),
            (found, Reply::TimedOut) => ["dropped", "unanswered"].contains(&found),
            _ => false,
        }
    }
}

fn is_unclear(outcomes: &[Value]) -> bool {
    outcomes
        .iter()
        .any(|outcome| outcome["result"] == "unclear")
}

/// Counts the unclear answers to questions.
///
/// # Panics
///
/// An answer is wrong.
#[track_caller]
fn count_unclear(scene: &Scene, asked: &[(Question<'_>, Reply)], flags: &[&str]) -> usize {
    let mut wrong = Vec::new();
    let mut unclear = 0;
    for (question, reply) in asked {
        let outcomes = scene.explained(question, flags);
        if is_unclear(&outcomes) {
            unclear += 1;
        } else if !outcomes.iter().any(|one| question.agrees(one, reply)) {
            let outcomes = outcomes.iter().map(|one| {
                let [result, sees, reason] = ["result", "sees", "reason"].map(|key| &one[key]);
                format!("{result}, sees {sees}: {reason}")
            });
            let outcomes = outcomes.collect::<Vec<_>>().join("; ");
            wrong.push(format!("{}: {reply:?}, {outcomes}", question.text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    unclear
}

/// Asks about each client and destination, and sends their packets.
fn few_answers_are_unclear(
    (program, backend): (&str, Backend),
    rules: &str,
    sets: &[(&str, &[&str])],
) {
    needs!(Kernel);
    let scene = Scene::new(backend);
    for (name, networks) in sets {
        ip_set::create(&scene.node.netns, name, networks);
    }
    scene.node.restore(rules);
    let _daemon = scene.start();
    let mut asked = scene.asked();
    assert_eq!(asked.len(), 40);
    for kind in [Reply::Refused, Reply::TimedOut] {
        let is_met = asked.iter().any(|(_, reply)| *reply == kind);
        assert!(is_met, "no packet is {kind:?}");
    }
    let flag = format!("--iptables-backend={}", backend.name());
    let on_node = ["--kernel", &*flag];
    let unclear_there = count_unclear(&scene, &asked, &on_node);
    assert!(
        unclear_there <= MAX_UNCLEAR,
        "{unclear_there} of 40 unclear"
    );
    // A pod on this node enters by the interface of an endpoint.
    let of_pod = scene.explained(&asked[3].0, &[&on_node[..], &["--from=pod"]].concat());
    assert!(!is_unclear(&of_pod), "{of_pod:#?}");

    // A dump has no routes and sets.
    let dump = scene.node.manifests.path().join(".dump");
    std::fs::write(&dump, scene.node.rules()).unwrap();
    let from_save = format!("--from-save={}", dump.display());
    let node_ips = NODE.map(|ip| format!("--node-ip={ip}"));
    let of_dump: Vec<&str> = [&*from_save]
        .into_iter()
        .chain(node_ips.iter().map(|ip| &**ip))
        .collect();
    let unclear = count_unclear(&scene, &asked, &of_dump);
    assert!(
        unclear > MAX_UNCLEAR,
        "{unclear} of 40 unclear, although only the node tells"
    );
    asked.retain(|(question, _)| question.is_to_first_pod());
    let by_route = [&of_dump[..], &["--route=pod11"]].concat();
    let by_route = count_unclear(&scene, &asked, &by_route);
    assert!(by_route <= 1, "{by_route} of 15 unclear");
    tell(format_args!(
        "explain beside {program} on {}: unclear {unclear_there} of 40, {unclear} of a dump, {by_route} of \
         15 with --route",
        backend.name()
    ));
}

#[test]
fn few_answers_beside_docker_are_unclear() {
    let rules = include_str!("docker.rules");
    for backend in [Backend::Nft, Backend::Legacy] {
        few_answers_are_unclear(("Docker", backend), rules, &[]);
    }
}

#[test]
fn few_answers_beside_calico_are_unclear() {
    let rules = include_str!("calico.rules");
    let sets: &[(&str, &[&str])] = &[
        ("cali40clients", &["10.4.0.20/32", "10.200.0.0/16"]),
        ("cali40none", &[]),
        ("cali40masq", &["10.4.0.0/24"]),
        ("cali40all", &["10.4.0.0/24"]),
    ];
    for backend in [Backend::Nft, Backend::Legacy] {
        few_answers_are_unclear(("Calico", backend), rules, sets);
    }
}
