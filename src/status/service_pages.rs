//! Pages about Services, `/services` and `/services/NAMESPACE/NAME`, from what the families have in
//! memory. A Service with addresses of both is one row, and one page.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};

use super::document::{FamilyStatus, QuarantinedService};
use super::family_requests::{
    Busy, FamilyRequest, FamilyRequests, ServiceDetail, ServiceSearch, ServicesAsked, Turn,
};
use super::html::{self, Audience, ServiceList, ServicePage, ServiceRow};
use super::service_condition::ServiceCondition;
use super::summary::SummaryLimits;
use crate::model::ServiceName;
use crate::telemetry::Reply;

/// Rows of a page: it stays below 100 KB.
const ROWS: usize = 50;

/// Parts of a Service in a row.
const ROW_LIMITS: SummaryLimits = SummaryLimits {
    ports: 5,
    frontends: 5,
    endpoints: 0,
};

/// Parts of a Service on its page: with 150 bytes for each item it stays below 100 KB.
const PAGE_LIMITS: SummaryLimits = SummaryLimits {
    ports: 20,
    frontends: 5,
    endpoints: 100,
};

#[derive(Debug)]
pub(crate) struct ServicePages {
    requests: Arc<FamilyRequests>,
}

impl ServicePages {
    pub(crate) fn new(requests: Arc<FamilyRequests>) -> Self {
        Self { requests }
    }

    /// Returns the list of Services. `families` is the state of each family.
    pub(super) async fn list(&self, request: &Request<Bytes>, families: &[FamilyStatus]) -> Reply {
        let query = request.uri().query().unwrap_or_default();
        let value = |name| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            let found = pairs.find(|(key, _)| key == name);
            found.map_or_else(String::new, |(_, value)| value.into_owned())
        };
        let page = value("page").parse().unwrap_or(1);
        match self.find(value("q"), page, families).await {
            Ok(list) => {
                let main = html::services(&list);
                html::page(StatusCode::OK, Audience::Node, "Services", &main)
            }
            Err(busy) => busy_page(busy),
        }
    }

    /// Returns the page of a Service; `path` is the part behind `/services/`.
    pub(super) async fn service(&self, path: &str, families: &[FamilyStatus]) -> Reply {
        let unknown = || {
            let text = "This node has no such Service, or it has no rules: it is headless, of type \
                        ExternalName, or not known yet.";
            html::refusal(StatusCode::NOT_FOUND, Audience::Node, text)
        };
        let Some((namespace, name)) = path.split_once('/') else {
            return unknown();
        };
        let name = ServiceName::new(&decoded(namespace), &decoded(name));
        let asked = async {
            let turn = self.requests.turn_soon().await?;
            let names = vec![name.clone()];
            rows(&turn, names, (PAGE_LIMITS, ServiceDetail::Page), families).await
        };
        let row = match asked.await {
            Ok(rows) => rows.into_iter().find(|row| !row.families.is_empty()),
            Err(busy) => return busy_page(busy),
        };
        let Some(ServiceRow {
            condition,
            families: of_families,
            ..
        }) = row
        else {
            return unknown();
        };
        let quarantine = quarantined(families, &name);
        let page = ServicePage {
            condition,
            quarantine: quarantine
                .map(|one| (one.error.clone(), one.consequence.clone()))
                .collect(),
            families: of_families,
            name,
        };
        let main = html::service(&page);
        html::page(StatusCode::OK, Audience::Node, page.name.as_str(), &main)
    }

    async fn find(
        &self,
        search: String,
        page: usize,
        families: &[FamilyStatus],
    ) -> Result<ServiceList, Busy> {
        let turn = self.requests.turn_soon().await?;
        let mut names = Vec::new();
        for family in turn.families() {
            let search = ServiceSearch::new(&search);
            names.extend(turn.ask(family, FamilyRequest::Names, search).await?);
        }
        // Two sorted lists, which this sort merges in linear time.
        names.sort();
        names.dedup();
        let pages = names.len().div_ceil(ROWS).max(1);
        let page = page.clamp(1, pages);
        let first = (page - 1) * ROWS;
        let found = names.len();
        let shown = names.into_iter().skip(first).take(ROWS).collect();
        let rows = rows(&turn, shown, (ROW_LIMITS, ServiceDetail::Row), families).await?;
        Ok(ServiceList {
            search,
            found,
            first,
            rows,
            page,
            pages,
        })
    }
}

/// Describes Services, each with the families that know it.
async fn rows(
    turn: &Turn<'_>,
    names: Vec<ServiceName>,
    (limits, detail): (SummaryLimits, ServiceDetail),
    families: &[FamilyStatus],
) -> Result<Vec<ServiceRow>, Busy> {
    let mut rows: Vec<ServiceRow> = names
        .iter()
        .map(|name| ServiceRow {
            name: name.clone(),
            condition: ServiceCondition::Ok,
            families: Vec::new(),
        })
        .collect();
    for family in turn.families() {
        let asked = ServicesAsked {
            names: names.clone(),
            limits,
            detail,
        };
        let answer = turn.ask(family, FamilyRequest::Services, asked).await?;
        for (row, service) in rows.iter_mut().zip(answer) {
            row.families
                .extend(service.map(|service| (family, service)));
        }
    }
    for row in &mut rows {
        let conditions = row.families.iter();
        let worst = conditions.map(|(_, service)| ServiceCondition::of(service));
        row.condition = if quarantined(families, &row.name).next().is_some() {
            ServiceCondition::Quarantined
        } else {
            worst.max().unwrap_or(ServiceCondition::Ok)
        };
    }
    Ok(rows)
}

fn quarantined<'a>(
    families: &'a [FamilyStatus],
    name: &'a ServiceName,
) -> impl Iterator<Item = &'a QuarantinedService> {
    let all = families.iter().flat_map(|family| &family.quarantined);
    all.filter(|one| one.service == name.as_str())
}

/// Decodes a part of a path, which the links of the list encode like a part of a query.
fn decoded(text: &str) -> String {
    let mut pairs = form_urlencoded::parse(text.as_bytes());
    pairs
        .next()
        .map_or_else(String::new, |(key, _)| key.into_owned())
}

fn busy_page(busy: Busy) -> Reply {
    let text = busy.to_string();
    html::refusal(StatusCode::SERVICE_UNAVAILABLE, Audience::Node, &text)
}

#[cfg(test)]
#[path = "tests/service_pages.rs"]
mod tests;
