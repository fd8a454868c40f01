//! Payloads with the same lines in another order.
//!
//! Apart from what is measured because this knows lines and nothing of kernels. Every arrangement
//! keeps jumps behind the header of the chain that they lead to.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Name of the payload that is not arranged: on nft it is in blocks.
pub const AS_RENDERED: &str = "as rendered";

/// Where the headers of chains stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    /// Each before the first rule of its chain.
    Beside,
    /// All before the first rule, in this order.
    First(Order),
}

/// In which order chains, or Services by the chain that they are entered through, are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By Service.
    Service,
    /// By the chain's name.
    Ascending,
    /// By the chain's name, backwards.
    Descending,
}

/// The line that reads all chains at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    First,
    Never,
}

/// An arrangement of the nat table.
#[derive(Debug, Clone, Copy)]
pub struct Arrangement {
    pub name: &'static str,
    pub list: List,
    pub headers: Headers,
    pub services: Order,
}

impl Arrangement {
    pub const fn new(name: &'static str, list: List, headers: Headers, services: Order) -> Self {
        Self {
            name,
            list,
            headers,
            services,
        }
    }

    /// The payload in this arrangement; other tables stay as they are.
    pub fn of(&self, payload: &str) -> String {
        let (before, nat, behind) = split_nat(payload);
        let is_between = |line: &&str| ["*nat", "COMMIT"].contains(line);
        let mut lines: Vec<&str> = nat.lines().filter(|line| !is_between(line)).collect();
        lines = by_service(beside(lines), self.services);
        if let Headers::First(order) = self.headers {
            lines = headers_first(lines, order);
        }
        let list = if self.list == List::First { "-S\n" } else { "" };
        let body = lines.join("\n");
        format!("{before}*nat\n{list}{body}\nCOMMIT\n{behind}")
    }
}

/// The text before the nat table, the table, which may be in several blocks, and the text after it.
pub fn split_nat(payload: &str) -> (&str, &str, &str) {
    let (before, rest) = payload.split_once("*nat\n").expect("a nat table");
    let last = rest.rfind("*nat\n").unwrap_or_default();
    let end = rest[last..].find("COMMIT\n").expect("the end of a table");
    let (nat, behind) = rest.split_at(last + end);
    (before, nat, &behind["COMMIT\n".len()..])
}

/// The chain that a rule of KUBE-SERVICES leads to.
pub fn target(line: &str) -> &str {
    line.rsplit(' ').next().unwrap_or_default()
}

pub fn is_dispatch(line: &str) -> bool {
    ["-A ", "-D ", "-I "].iter().any(|command| {
        line.strip_prefix(command)
            .is_some_and(|rest| rest.starts_with("KUBE-SERVICES "))
    })
}

/// Headers of chains without rules stay where they are.
fn beside(lines: Vec<&str>) -> Vec<&str> {
    let mut headers: HashMap<&str, &str> = lines
        .iter()
        .filter_map(|line| Some((line.strip_prefix(':')?.split(' ').next()?, *line)))
        .collect();
    let filled: HashSet<&str> = lines.iter().filter_map(|line| chain_of(line)).collect();
    let mut placed = Vec::with_capacity(lines.len());
    for line in lines {
        if let Some(name) = line
            .strip_prefix(':')
            .and_then(|rest| rest.split(' ').next())
            && filled.contains(name)
        {
            continue;
        }
        placed.extend(chain_of(line).and_then(|name| headers.remove(name)));
        placed.push(line);
    }
    placed
}

/// The chain of Services or endpoints that a rule is added to. Jumps may come before rules of the
/// others.
fn chain_of(line: &str) -> Option<&str> {
    let name = line.strip_prefix("-A ")?.split(' ').next()?;
    (name.starts_with("KUBE-SVC-") || name.starts_with("KUBE-SEP-")).then_some(name)
}

/// Each Service ends with its one rule in KUBE-SERVICES; what stands before the first one's chains
/// and behind the last one's rule is not moved.
fn by_service(lines: Vec<&str>, order: Order) -> Vec<&str> {
    if order == Order::Service {
        return lines;
    }
    let is_service = |line: &&str| is_dispatch(line) && target(line) != "KUBE-NODEPORTS";
    let first = lines
        .iter()
        .position(|line| line.starts_with(":KUBE-SEP-") || line.starts_with(":KUBE-SVC-"));
    let last = lines.iter().rposition(is_service);
    let (Some(first), Some(last)) = (first, last) else {
        return lines;
    };
    let mut services: Vec<&[&str]> = lines[first..=last]
        .split_inclusive(|line| is_service(line))
        .collect();
    services.sort_by(|one, other| {
        let key = |service: &[&str]| target(service.last().unwrap()).to_owned();
        compare(&key(one), &key(other), order)
    });
    let services = services.concat();
    [&lines[..first], &services, &lines[last + 1..]].concat()
}

fn headers_first(lines: Vec<&str>, order: Order) -> Vec<&str> {
    let (mut headers, rest): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| line.starts_with(':'));
    headers.sort_by(|one, other| compare(one, other, order));
    headers.extend(rest);
    headers
}

fn compare(one: &str, other: &str, order: Order) -> Ordering {
    match order {
        Order::Service => Ordering::Equal,
        Order::Ascending => one.cmp(other),
        Order::Descending => other.cmp(one),
    }
}
