//! Finds the Service that a line of a payload belongs to: if a restore fails and the error names a
//! line, that Service may be at fault.
//!
//! Most rules name their service port in a comment. Chain declarations do not, nor do rules on
//! endpoints in large clusters: for such a line Services are rendered one by one, in the worst case
//! all, until one has the chain.

use super::options::{Comments, Options};
use super::service::{self, ServiceRules};
use crate::model::{ServiceName, ServiceState};
use crate::ruleset::ServiceChain;

/// Returns the one of these Services that the line belongs to; `None` if it belongs to none, like
/// lines of fixed chains, deletions of stale chains and `COMMIT`.
pub(crate) fn service_of_line<'s, I: Iterator<Item = (&'s ServiceName, &'s ServiceState)>>(
    line: &str,
    services: impl Fn() -> I,
    options: &Options,
) -> Option<ServiceName> {
    let mut commented = commented_services(line);
    let commented = commented.find(|name| services().any(|(known, _)| known == name));
    commented.or_else(|| service_of_chain(service_chain(line)?, services(), options))
}

/// Returns the Services that the comment of a rule may name: every word in the form of the name of
/// a service port counts.
fn commented_services(line: &str) -> impl Iterator<Item = ServiceName> {
    let comment = line.split_once("--comment ").map_or("", |(_, after)| after);
    let (text, is_quoted) = match comment.strip_prefix('"') {
        Some(quoted) => (quoted.split('"').next().unwrap_or_default(), true),
        None => (comment, false),
    };
    // Without quotes it is one word.
    let words = text.split(' ').take(if is_quoted { usize::MAX } else { 1 });
    words.filter_map(|word| {
        let (namespace, rest) = word.split_once('/')?;
        let name = rest.split(':').next()?;
        Some(ServiceName::new(namespace, name))
    })
}

/// Returns the Service chain that a line fills, declares or, in a dispatch chain, jumps to.
fn service_chain(line: &str) -> Option<ServiceChain> {
    let line = line.trim_end();
    let declared = line
        .strip_prefix(':')
        .and_then(|rest| rest.split(' ').next());
    let filled = line.split(' ').nth(1);
    let target = line.rsplit(' ').next();
    let mut names = [declared, filled, target].into_iter().flatten();
    names.find_map(ServiceChain::parse)
}

/// Renders Services until one has the chain.
fn service_of_chain<'s>(
    chain: ServiceChain,
    mut services: impl Iterator<Item = (&'s ServiceName, &'s ServiceState)>,
    options: &Options,
) -> Option<ServiceName> {
    let mut rules = ServiceRules::default();
    let found = services.find(|(name, state)| {
        // Only names of chains are compared: comments would cost time.
        service::render(&mut rules, name, state, options, Comments::NotOnEndpoints);
        rules.chains().any(|(rendered, _)| rendered.chain == chain)
    });
    found.map(|(name, _)| name.clone())
}

#[cfg(test)]
#[path = "tests/line_owner.rs"]
mod tests;
