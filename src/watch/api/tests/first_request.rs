//! Requests that begin at the same moment wait for the response to the first.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::super::encoding::JSON;
use super::super::response::ApiResponse;
use super::super::{ApiClient, Encoding, RateLimit};

/// Outcome of the first request; others get a response at once.
#[derive(Clone, Copy)]
enum First {
    RespondsAfter(Duration),
    /// The second then gets its response after a second.
    FailsAfter(Duration),
}

/// Seconds after which each of three requests reached the server, and then a fourth.
fn arrivals(first: First) -> Vec<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let began = Instant::now();
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let log = arrivals.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let mut log = log.lock().unwrap();
            let number = log.len();
            log.push(began.elapsed().as_secs());
            async move {
                match first {
                    First::RespondsAfter(time) if number == 0 => sleep(time).await,
                    First::FailsAfter(time) if number == 0 => {
                        sleep(time).await;
                        return Err(BoxError::from("connection refused"));
                    }
                    First::FailsAfter(_) if number == 1 => sleep(SECOND).await,
                    _ => {}
                }
                Ok(Response::new(Body::empty()))
            }
        });
        let client = Client::new(service, "default");
        let server = ApiClient::new(client, "test", Encoding::Json, RateLimit::default());
        let send = || ApiResponse::get(&server, JSON, "/");
        let _ = tokio::join!(send(), send(), send());
        let _ = send().await;
        arrivals.lock().unwrap().clone()
    })
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn other_requests_wait_for_the_first_response() {
    assert_eq!(arrivals(First::RespondsAfter(SECOND)), [0, 1, 1, 1]);
}

#[test]
fn after_a_failure_the_next_request_is_the_first() {
    assert_eq!(arrivals(First::FailsAfter(SECOND)), [0, 1, 2, 2]);
}

#[test]
fn requests_wait_at_most_ten_seconds_for_the_first_response() {
    assert_eq!(arrivals(First::RespondsAfter(SECOND * 30)), [0, 10, 10, 30]);
}
