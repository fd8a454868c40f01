//! Renders rows in aligned columns, as `kubectl get` does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::IpAddr;

use anstyle::{AnsiColor, Style};

use super::rows::Row;
use crate::inspect::catalog::{FrontendKind, Policy, PortView, ServiceType, TrafficOrigin};
use crate::net::IpFamily;

/// Heading of a column, and the function that renders its cells.
pub(super) type ServiceColumn = (&'static str, fn(&Row) -> String);

const COLUMNS: &[ServiceColumn] = &[
    ("NAMESPACE", |row| row.name.namespace().to_owned()),
    ("NAME", name),
    (STATUS, |row| row.status().to_string()),
    (CLUSTER_IP, |row| first_or_marked(&cluster_ips(row))),
    ("EXTERNAL-IP", |row| {
        addresses(row, |kind| {
            matches!(
                kind,
                FrontendKind::ExternalIp | FrontendKind::LoadBalancer | FrontendKind::External
            )
        })
    }),
    ("PORT(S)", ports),
    ("ENDPOINTS", endpoints),
];

const WIDE: &[ServiceColumn] = &[
    (TYPE, |row| {
        let of_row = row.service_type();
        of_row.map_or(UNKNOWN, ServiceType::as_str).to_owned()
    }),
    ("POLICY", policy),
    ("LOCAL", local),
    ("AFFINITY", affinity),
    ("SOURCE-RANGES", |row| {
        let ranges = row.views().flat_map(|(_, view)| &view.source_ranges);
        listed(row, ranges.map(ToString::to_string))
    }),
    ("HEALTH-CHECK", |row| {
        let ports = port_of(row, FrontendKind::HealthCheck);
        if ports.is_empty() && row.unreadable_frontends > 0 {
            return UNKNOWN.to_owned();
        }
        list(ports)
    }),
    ("CHAINS", |row| {
        if row.lacks_chains() {
            return UNKNOWN.to_owned();
        }
        sum(row, |view| view.chains.len())
    }),
    ("RULES", |row| sum(row, |view| view.rules)),
    ("ENDPOINT-ADDRESSES", |row| {
        let endpoints = row.views().flat_map(|(_, view)| &view.endpoints);
        listed(row, endpoints.map(|endpoint| endpoint.address.to_string()))
    }),
];

const STATUS: &str = "STATUS";
const CLUSTER_IP: &str = "CLUSTER-IP";
const TYPE: &str = "TYPE";
/// Heading for types that only rules show: a load balancer without an address is a NodePort there.
const LEAST_TYPE: &str = "LEAST-TYPE";

const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";
/// Cell of a property that no packet depends on.
const NO_EFFECT: &str = "-";
/// Beginning of every mark of a frontend or of endpoints that some traffic does not reach.
const UNREACHABLE: &str = "(unreachable";

/// Returns the columns of a table. Types are certain only if they are those of objects.
pub(super) fn columns(is_wide: bool, has_objects: bool) -> Vec<ServiceColumn> {
    let wide = if is_wide { WIDE } else { &[] };
    let mut columns = [COLUMNS, wide].concat();
    for (heading, cell) in &mut columns {
        match *heading {
            CLUSTER_IP if is_wide => *cell = cluster_ips,
            TYPE if !has_objects => *heading = LEAST_TYPE,
            _ => {}
        }
    }
    columns
}

/// Writes the name of each Service on a line, as kubectl does.
pub(super) fn write_names(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let names = rows
        .iter()
        .map(|row| (row.name.namespace(), row.name.service()));
    for (_, name) in names.collect::<BTreeSet<_>>() {
        writeln!(out, "service/{name}")?;
    }
    Ok(())
}

/// Returns the mark of a frontend or of endpoints that some traffic does not reach.
fn mark(unreachable_from: &BTreeSet<TrafficOrigin>) -> &'static str {
    let is_from = |origin| unreachable_from.contains(&origin);
    match (
        is_from(TrafficOrigin::Outside),
        is_from(TrafficOrigin::Node),
    ) {
        (false, false) => "",
        (true, true) => "(unreachable)",
        (true, false) => "(unreachable-from-outside)",
        (false, true) => "(unreachable-from-node)",
    }
}

/// Writes rows in aligned columns; an empty table has no headings.
pub(super) fn write(
    out: &mut dyn Write,
    columns: &[ServiceColumn],
    rows: &[Row],
    has_headings: bool,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let cells = |row: &Row| columns.iter().map(|(_, cell)| cell(row)).collect();
    let headings: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let lines = rows.iter().map(cells).collect();
    write_lines(out, &headings, lines, has_headings)
}

/// Writes lines of cells in aligned columns.
pub(super) fn write_lines(
    out: &mut dyn Write,
    headings: &[&str],
    cells: Vec<Vec<String>>,
    has_headings: bool,
) -> io::Result<()> {
    let mut widths: Vec<usize> = headings.iter().map(|name| name.len()).collect();
    let mut lines: Vec<Vec<String>> = Vec::new();
    if has_headings {
        lines.push(headings.iter().map(|name| (*name).to_owned()).collect());
    }
    lines.extend(cells);
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.len().max(*width);
        }
    }
    for line in &lines {
        let mut blanks = 0;
        for ((cell, width), heading) in line.iter().zip(&widths).zip(headings) {
            let style = style(heading, cell);
            write!(out, "{:blanks$}{style}{cell}{style:#}", "")?;
            blanks = width - cell.len() + GAP;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Blanks between columns, as many as kubectl has.
const GAP: usize = 3;

/// Highlights what is not ok.
fn style(heading: &str, cell: &str) -> Style {
    match (heading, cell) {
        (STATUS, "ok" | STATUS) => Style::new(),
        (STATUS, "unknown") => AnsiColor::Yellow.on_default(),
        (STATUS, _) => AnsiColor::Red.on_default(),
        _ => Style::new(),
    }
}

pub(super) fn name(row: &Row) -> String {
    match row.name.port() {
        "" => row.name.service().to_owned(),
        port => format!("{}:{port}", row.name.service()),
    }
}

fn list(parts: impl IntoIterator<Item = String>) -> String {
    let parts: Vec<String> = parts.into_iter().collect();
    if parts.is_empty() {
        return NONE.to_owned();
    }
    parts.join(",")
}

/// Renders a list, of which nothing is known if rules of the row cannot be read.
fn listed(row: &Row, parts: impl IntoIterator<Item = String>) -> String {
    let text = list(parts);
    if text == NONE && row.lacks_rules() {
        return UNKNOWN.to_owned();
    }
    text
}

/// Renders the addresses of frontends, each with its mark if it is more than that of the endpoints.
fn addresses(row: &Row, is_wanted: impl Fn(FrontendKind) -> bool) -> String {
    let mut ips: BTreeMap<IpAddr, BTreeSet<TrafficOrigin>> = BTreeMap::new();
    for (_, view) in row.views() {
        let all = view.unreachable_from();
        let wanted = view.frontends.iter().filter(|one| is_wanted(one.kind));
        for (ip, frontend) in wanted.filter_map(|one| Some((one.ip?, one))) {
            let known = ips.entry(ip).or_default();
            if !frontend.unreachable_from.is_subset(&all) {
                known.extend(&frontend.unreachable_from);
            }
        }
    }
    if ips.is_empty() && row.lacks_frontends() {
        return UNKNOWN.to_owned();
    }
    list(
        ips.iter()
            .map(|(ip, unreachable_from)| format!("{ip}{}", mark(unreachable_from))),
    )
}

fn cluster_ips(row: &Row) -> String {
    addresses(row, |kind| kind == FrontendKind::ClusterIp)
}

/// Shortens a list of addresses to the first, which kubectl shows, and those with a mark.
fn first_or_marked(addresses: &str) -> String {
    let all = addresses.split(',').enumerate();
    let shown = all.filter(|(index, one)| *index == 0 || one.contains(UNREACHABLE));
    shown.map(|(_, one)| one).collect::<Vec<_>>().join(",")
}

fn port_of(row: &Row, kind: FrontendKind) -> BTreeSet<String> {
    let frontends = row.frontends().filter(|frontend| frontend.kind == kind);
    frontends
        .map(|frontend| format!("{}{}", frontend.port, mark(&frontend.unreachable_from)))
        .collect()
}

/// Renders `80:30080/tcp`, as kubectl does.
fn ports(row: &Row) -> String {
    let is_node = |kind| matches!(kind, FrontendKind::NodePort | FrontendKind::HealthCheck);
    let mut own = row.frontends().filter(|frontend| !is_node(frontend.kind));
    let own = own.next().map(|one| one.port.to_string());
    let node = port_of(row, FrontendKind::NodePort);
    let mut text = own.unwrap_or_else(|| UNKNOWN.to_owned());
    for port in node {
        text = format!("{text}:{port}");
    }
    format!("{text}/{}", row.name.protocol)
}

/// Renders the number of endpoints, from where they are unreachable, and the number of rules that
/// cannot be read.
fn endpoints(row: &Row) -> String {
    each(row, |family, view| {
        if row.families_without_nat.contains(&family) {
            return UNKNOWN.to_owned();
        }
        let unreadable = match view.unreadable_rules {
            0 => String::new(),
            count => format!("(unreadable-rules:{count})"),
        };
        let mark = mark(&view.unreachable_from());
        format!("{}{mark}{unreadable}", view.endpoints.len())
    })
}

fn policy(row: &Row) -> String {
    let internal = row.views().find_map(|(_, view)| view.internal_policy);
    let external = row.views().find_map(|(_, view)| view.external_policy);
    // Only rules to endpoints show the policy; without any it has no effect.
    let has_endpoints = row.views().any(|(_, view)| !view.endpoints.is_empty());
    let is_unknown = has_endpoints || row.lacks_rules();
    let unknown = if is_unknown { UNKNOWN } else { NO_EFFECT };
    match (internal, external) {
        (None, None) => unknown.to_owned(),
        (Some(one), None) => one.as_str().to_owned(),
        (Some(internal), Some(external)) if internal == external => internal.as_str().to_owned(),
        (internal, Some(external)) => {
            let internal = internal.map_or(unknown, Policy::as_str);
            format!("{internal}/{}", external.as_str())
        }
    }
}

fn local(row: &Row) -> String {
    let is_local = |view: &PortView| {
        [view.internal_policy, view.external_policy].contains(&Some(Policy::Local))
    };
    if row.lacks_chains() {
        return UNKNOWN.to_owned();
    }
    if !row.views().any(|(_, view)| is_local(view)) {
        return NO_EFFECT.to_owned();
    }
    each(row, |_, view| {
        let endpoints = view.endpoints.iter();
        let local = endpoints.filter(|one| one.local.is_some());
        match local.count() {
            0 if view.unreadable_rules > 0 => UNKNOWN.to_owned(),
            count => count.to_string(),
        }
    })
}

fn affinity(row: &Row) -> String {
    let affinity = row.views().find_map(|(_, view)| view.affinity);
    listed(row, affinity.map(|time| format!("{}s", time.as_secs())))
}

/// Renders a number of each family, joined by `+` if both have the service port.
fn each(row: &Row, count: impl Fn(IpFamily, &PortView) -> String) -> String {
    let counts = row.views().map(|(family, view)| count(family, view));
    counts.collect::<Vec<_>>().join("+")
}

fn sum(row: &Row, count: impl Fn(&PortView) -> usize) -> String {
    let sum: usize = row.views().map(|(_, view)| count(view)).sum();
    sum.to_string()
}
