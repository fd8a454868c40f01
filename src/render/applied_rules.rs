//! Writes the recorded rules of the proxy in the form of `iptables-save`, from memory.
//!
//! Chains of Services are rendered from the states that they were last applied in, as the record
//! has digests of them alone. Policies of built-in chains, and third-party rules, are not known
//! here: a built-in chain is written with the entry jumps only, and with policy ACCEPT.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::applied_state::AppliedState;
use super::fixed_chains;
use super::options::{Options, PartialRestore};
use super::service::{
    self, ServiceRules, write_chain_declaration, write_chain_declarations, write_line,
};
use crate::model::{ServiceName, ServiceState};
use crate::rules::Table;
use crate::ruleset::{DispatchChain, JUMPS, KUBE_FIREWALL, KUBE_PROXY_CANARY};

/// Writes the rules of both tables, and the canary of mangle, into `sink`, piece by piece:
/// `services` in the states that they were last applied in, sorted by name.
pub(crate) fn write_applied<'a>(
    applied: &AppliedState,
    services: impl Iterator<Item = (&'a ServiceName, Cow<'a, ServiceState>)>,
    options: &Options,
    mut sink: impl FnMut(&[u8]),
) {
    let mut buf = Vec::new();
    write_head(&mut buf, Table::Filter, options);
    fixed_chains::write_filter(&mut buf, options);
    write_dispatch(&mut buf, Table::Filter, applied);
    write_line(&mut buf, &["COMMIT"]);
    write_head(&mut buf, Table::Nat, options);
    fixed_chains::write_nat(&mut buf, options);
    sink(&buf);
    let mut rules = ServiceRules::default();
    for (name, state) in services {
        write_service(&mut buf, &mut rules, applied, options, (name, &state));
        sink(&buf);
    }
    buf.clear();
    write_dispatch(&mut buf, Table::Nat, applied);
    write_line(&mut buf, &["COMMIT"]);
    write_head(&mut buf, Table::Mangle, options);
    write_line(&mut buf, &["COMMIT"]);
    sink(&buf);
}

/// Returns the rules of one Service: its chains, and its rules in dispatch chains, as if these were
/// flat.
pub(crate) fn applied_rules_of(
    applied: &AppliedState,
    (name, state): (&ServiceName, &ServiceState),
    options: &Options,
) -> String {
    let (mut buf, mut rules) = (Vec::new(), ServiceRules::default());
    write_service(&mut buf, &mut rules, applied, options, (name, state));
    let dispatch = applied.service(name).map(|service| &service.dispatch);
    for rule in dispatch.into_iter().flatten() {
        buf.extend_from_slice(b"-A ");
        buf.extend_from_slice(rule.chain.name().as_bytes());
        buf.extend_from_slice(&rule.text);
    }
    String::from_utf8_lossy(&buf).into_owned()
}

/// Writes the beginning of a table, up to the entry jumps.
fn write_head(buf: &mut Vec<u8>, table: Table, options: &Options) {
    write_line(buf, &["*", table.as_str()]);
    let jumps = || JUMPS.iter().filter(|jump| jump.table == table);
    let built_in: BTreeSet<&str> = jumps().map(|jump| jump.from).collect();
    for chain in built_in {
        write_line(buf, &[":", chain, " ACCEPT [0:0]"]);
    }
    write_chain_declarations(buf, &[KUBE_PROXY_CANARY]);
    write_chain_declarations(buf, fixed_chains::names(table, options));
    if table == Table::Filter && !fixed_chains::fills_kube_firewall(options) {
        write_chain_declarations(buf, &[KUBE_FIREWALL]);
    }
    // Restores insert each one at the top, so that the last one is the first rule.
    for jump in jumps().rev() {
        write_line(buf, &["-A ", jump.from, " ", jump.rule]);
    }
}

/// Replaces `buf` by the chains of a Service. A Service that has none is not in the record.
fn write_service(
    buf: &mut Vec<u8>,
    rules: &mut ServiceRules,
    applied: &AppliedState,
    options: &Options,
    (name, state): (&ServiceName, &ServiceState),
) {
    buf.clear();
    service::render(rules, name, state, options, applied.comments_of(name));
    for (chain, text) in rules.chains() {
        write_chain_declaration(buf, chain);
        buf.extend_from_slice(text);
    }
}

/// Writes the dispatch chains of a table, flat or as trees.
fn write_dispatch(buf: &mut Vec<u8>, table: Table, applied: &AppliedState) {
    for dispatch in DispatchChain::ALL {
        if dispatch.table() != table {
            continue;
        }
        if let Some(tree) = applied.trees.get(&dispatch) {
            let (chains, _) = tree.render(PartialRestore::Kep3453, &applied.services);
            for chain in &chains {
                chain.write(buf);
            }
        } else {
            write_chain_declarations(buf, &[dispatch.name()]);
            buf.extend_from_slice(applied.flat_rules(dispatch).as_bytes());
        }
    }
}
