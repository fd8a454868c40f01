//! `explain`: what becomes of packets to an address or a Service, and why.
//!
//! Apart because [`explain`](crate::explain) knows neither where rules come from nor terminals.

use std::net::IpAddr;

use super::snapshot::{Snapshot, unruled};
use super::{log, names, output};
use crate::config::{ExplainArgs, GraphArg, OutputArg};
use crate::explain::{self, Detail, Node, NotFound};
use crate::inspect::catalog::NoMatches;

/// Prints the way of packets.
pub(super) fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let question = args.asked()?;
    log::install_quiet()?;
    let snapshot = Snapshot::load(&args.origin)?;
    let question = match (question, args.names.only) {
        (Some(question), None) => question,
        (_, Some(what)) => return names::print(&snapshot, what, args.namespace.as_deref()),
        // The flags demand one of the two.
        (None, None) => return Ok(()),
    };
    let mut addresses = snapshot.node_addresses;
    addresses.extend(args.node_ip.iter().map(IpAddr::to_canonical));
    // A family of which no dump was given is not one without rules.
    let families = &snapshot.families;
    let pairs = snapshot.rules.as_ref().into_pairs().into_iter();
    let nodes: Vec<Node<'_>> = pairs
        .filter(|(family, _)| families.contains(family))
        .map(|(family, rules)| {
            let unseen = snapshot.unseen.get(family);
            let node = Node::new(rules, family, &addresses).without(unseen.clone());
            let conflicts = snapshot.conflicts.get(family).lost.clone();
            node.with_pods(*snapshot.pods.get(family))
                .with_conflicts(conflicts)
        })
        .collect();
    let explained = match explain::explain(&question, &nodes, &args.wanted()) {
        Ok(explained) => explained,
        Err(NotFound::Name(error)) => {
            let missing = Err(NoMatches(vec![error]));
            return unruled::told(missing, || unruled::of_origin(&args.origin));
        }
        Err(error) => return Err(error.into()),
    };
    let text = match (args.graph, args.output) {
        (Some(GraphArg::Tree), _) => explain::tree(&explained),
        (Some(GraphArg::Dot), _) => explain::dot(&explained),
        (Some(GraphArg::Svg), _) => explain::svg(&explained),
        (None, OutputArg::Json) => format!("{:#}\n", explain::json(&explained)),
        (None, OutputArg::Text) if args.verbose => explain::text(&explained, Detail::Full),
        (None, OutputArg::Text) => explain::text(&explained, Detail::Short),
    };
    output::stdout(|out| Ok(out.write_all(text.as_bytes())?))
}
