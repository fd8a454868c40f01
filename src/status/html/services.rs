//! Page `/services`: a table of Services in pieces, with a search.

use form_urlencoded::byte_serialize;
use maud::{Markup, html};

use super::document::{PageColumn, table};
use super::service::condition_text;
use crate::model::ServiceName;
use crate::net::IpFamily;
use crate::status::family_requests::FamilyService;
use crate::status::service_condition::ServiceCondition;

#[derive(Debug)]
pub(in crate::status) struct ServiceList {
    /// Search as typed.
    pub search: String,
    pub found: usize,
    /// Position of the first row among these.
    pub first: usize,
    pub rows: Vec<ServiceRow>,
    /// Number of this page, from 1 on.
    pub page: usize,
    /// Number of pages, at least one.
    pub pages: usize,
}

#[derive(Debug)]
pub(in crate::status) struct ServiceRow {
    pub name: ServiceName,
    pub condition: ServiceCondition,
    /// Families in which the Service has rules.
    pub families: Vec<(IpFamily, FamilyService)>,
}

pub(in crate::status) fn services(list: &ServiceList) -> Markup {
    html! {
        h1 { "Services" }
        form method="get" action="/services" role="search" {
            label for="q" { "Name or address" }
            input type="search" id="q" name="q" value=(list.search) autocomplete="off";
            button { "Search" }
        }
        @if list.rows.is_empty() {
            p { "No Service is found" }
        } @else {
            (list_table(list))
        }
        @if list.pages > 1 { (pages(list)) }
    }
}

fn list_table(list: &ServiceList) -> Markup {
    const COLUMNS: &[PageColumn] = &[
        ("Service", false),
        ("Status", false),
        ("Addresses", false),
        ("Ports", false),
        ("IPv4 endpoints", true),
        ("IPv6 endpoints", true),
    ];
    let (first, end) = (list.first + 1, list.first + list.rows.len());
    let caption = format!("Services {first} to {end} of {}", list.found);
    let rows = html! { @for row in &list.rows { (table_row(row)) } };
    table("Services", Some(&caption), COLUMNS, &rows)
}

fn table_row(row: &ServiceRow) -> Markup {
    let summaries = || row.families.iter().map(|(_, service)| &service.summary);
    let first_frontends = summaries().filter_map(|summary| summary.ports.first.first());
    let addresses: Vec<String> = first_frontends
        .filter_map(|port| {
            port.frontends
                .first
                .iter()
                .find(|one| one.kind == "ClusterIP")
        })
        .filter_map(|one| Some(one.frontend.ip()?.to_string()))
        .collect();
    let ports = summaries().next().map(|summary| &summary.ports);
    html! {
        tr {
            th scope="row" { a href=(service_link(&row.name)) { (row.name) } }
            td { (condition_text(row.condition)) }
            td { (addresses.join(", ")) }
            td {
                @for (position, port) in ports.iter().flat_map(|ports| &ports.first).enumerate() {
                    @if position > 0 { ", " }
                    @if let Some(one) = port.frontends.first.first() {
                        (one.frontend.port()) "/" (port.protocol)
                    }
                }
                @if let Some(ports) = ports && ports.left_out() > 0 { " and " (ports.left_out()) " more" }
            }
            @for family in IpFamily::ALL {
                td class="number" {
                    @match row.families.iter().find(|(of, _)| *of == family) {
                        Some((_, service)) => (service.summary.endpoints()),
                        None => "\u{2013}",
                    }
                }
            }
        }
    }
}

fn pages(list: &ServiceList) -> Markup {
    let link = |number: usize, text: &str, relation: Option<&str>| {
        html! { li { a href=(page_link(&list.search, number)) rel=[relation] { (text) } } }
    };
    html! {
        nav aria-label="Pages of the table" {
            ul {
                @if list.page > 1 {
                    (link(1, "First", None))
                    (link(list.page - 1, "Previous", Some("prev")))
                }
                li aria-current="page" { "Page " (list.page) " of " (list.pages) }
                @if list.page < list.pages {
                    (link(list.page + 1, "Next", Some("next")))
                    (link(list.pages, "Last", None))
                }
            }
        }
    }
}

fn page_link(search: &str, page: usize) -> String {
    let search: String = byte_serialize(search.as_bytes()).collect();
    format!("/services?q={search}&page={page}")
}

/// Returns the path of the page of a Service.
fn service_link(name: &ServiceName) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let (namespace, name) = (encoded(name.namespace()), encoded(name.name()));
    format!("/services/{namespace}/{name}")
}
