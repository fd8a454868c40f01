//! Pages about Services, from families that answer.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::super::family_requests::{FamilyService, ServiceRulesText};
use super::*;
use crate::model::{ExternalIps, Service, ServicePort, ServiceState, Topology};
use crate::net::PerFamily;
use crate::status::RulesSummary;

type Known = BTreeMap<ServiceName, ServiceState>;

/// Returns Services without endpoints.
fn services(numbers: impl IntoIterator<Item = usize>, ip: &str) -> Known {
    let port = ServicePort::tcp("", 80);
    let service = Service::plain(ip.parse().unwrap(), [port].into());
    let state = ServiceState {
        service: Some(Arc::new(service)),
        ..ServiceState::default()
    };
    let name = |number: usize| ServiceName::new("shop", &format!("web-{number:05}"));
    let numbers = numbers.into_iter();
    numbers.map(|one| (name(one), state.clone())).collect()
}

async fn answer_all(known: Known, mut requests: mpsc::Receiver<FamilyRequest>) {
    while let Some(request) = requests.recv().await {
        match request {
            FamilyRequest::Names(question) => question.answer(|search: ServiceSearch| {
                let found = known
                    .iter()
                    .filter(|(name, state)| search.finds(name, state));
                found.map(|(name, _)| name.clone()).collect()
            }),
            FamilyRequest::Services(question) => question.answer(|asked: ServicesAsked| {
                let names = asked.names.iter();
                let service = |name: &ServiceName| {
                    let state = known.get(name)?;
                    let (topology, limits) = (Topology::default(), asked.limits);
                    let served = ExternalIps::Served;
                    Some(FamilyService {
                        summary: RulesSummary::of(name, state, &topology, served, limits)?,
                        is_pending: false,
                        rules: ServiceRulesText::NotAsked,
                    })
                };
                names.map(service).collect()
            }),
            FamilyRequest::Rules(_) => unreachable!(),
        }
    }
}

/// Runs `test` with pages of two families: IPv4 has 10,000 Services, IPv6 a hundred of them and
/// another one.
async fn with_pages(test: impl AsyncFnOnce(&ServicePages)) {
    let (requests, PerFamily { v4, v6 }) = FamilyRequests::new();
    let pages = ServicePages::new(Arc::new(requests));
    tokio::select! {
        () = test(&pages) => {}
        () = answer_all(services(0..10_000, "10.0.0.1"), v4) => unreachable!(),
        () = answer_all(services((0..100).chain([20_000]), "fd00::1"), v6) => unreachable!(),
    }
}

async fn get(pages: &ServicePages, path: &str, families: &[FamilyStatus]) -> (u16, String) {
    let request = Request::builder().uri(path).body(Bytes::new()).unwrap();
    let reply = match path.strip_prefix("/services/") {
        Some(name) => pages.service(name, families).await,
        None => pages.list(&request, families).await,
    };
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn both_families_are_one_list_in_pages_of_50() {
    with_pages(async |pages| {
        let (status, first) = get(pages, "/services", &[]).await;
        assert_eq!(status, 200);
        assert!(first.contains("Services 1 to 50 of 10001"), "{first}");
        assert!(first.contains("10.0.0.1, fd00::1"), "{first}");
        assert_eq!(first.matches("scope=\"row\"").count(), 50);
        let next = "href=\"/services?q=&amp;page=2\" rel=\"next\"";
        assert!(first.contains(next), "{first}");
        assert!(!first.contains(">Previous<"), "{first}");
        // A page that does not exist is the last one, or the first one.
        let (_, last) = get(pages, "/services?page=999999", &[]).await;
        assert!(last.contains("shop/web-20000") && last.contains("Page 201 of 201"));
        let (_, none) = get(pages, "/services?page=-1&page=2", &[]).await;
        assert!(none.contains("Page 1 of 201"), "{none}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_search_has_pages_of_its_own() {
    with_pages(async |pages| {
        let (_, found) = get(pages, "/services?q=web-000%30&page=1", &[]).await;
        assert!(found.contains("Services 1 to 10 of 10"), "{found}");
        let (_, found) = get(pages, "/services?q=fd00%3A%3A1&page=2", &[]).await;
        assert!(found.contains("Services 51 to 100 of 101"), "{found}");
        let next = "/services?q=fd00%3A%3A1&amp;page=3";
        assert!(found.contains(next), "{found}");
        let (status, found) = get(pages, "/services?q=%3Cscript%3E", &[]).await;
        assert_eq!(status, 200);
        assert!(found.contains("No Service is found"), "{found}");
        assert!(found.contains("value=\"&lt;script&gt;\""), "{found}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_has_a_page_and_an_unknown_one_is_not_found() {
    with_pages(async |pages| {
        let quarantined = FamilyStatus {
            quarantined: vec![QuarantinedService {
                service: "shop/web-00007".to_owned(),
                error: "rejected line 7".to_owned(),
                ..QuarantinedService::default()
            }],
            ..FamilyStatus::default()
        };
        let (status, page) = get(pages, "/services/shop/web-00007", &[quarantined]).await;
        assert_eq!(status, 200);
        for text in [
            "quarantined",
            "rejected line 7",
            "rejected: no endpoints",
            "IPv6",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        let (_, page) = get(pages, "/services/shop/web-09999", &[]).await;
        assert!(page.contains("no endpoints"), "{page}");
        assert!(!page.contains("IPv6"), "{page}");
        for path in ["shop/web", "shop", "shop/web-00007/", "%2F/x", "/"] {
            let (status, _) = get(pages, &format!("/services/{path}"), &[]).await;
            assert_eq!(status, 404, "{path}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn busy_families_are_reported() {
    let (requests, _ends) = FamilyRequests::new();
    let pages = ServicePages::new(Arc::new(requests));
    let (status, text) = get(&pages, "/services", &[]).await;
    assert_eq!(status, 503);
    assert!(text.contains("the thread of IPv4 is busy"), "{text}");
}
