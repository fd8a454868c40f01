//! When requests that begin at the same moment are sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::super::answer::Answer;
use super::super::encoding::Asked;
use super::super::{ApiServer, Encoding, RateLimit};

/// What becomes of the first request; others are answered at once.
#[derive(Clone, Copy)]
enum First {
    AnsweredAfter(Duration),
    /// The second is then answered after a second.
    RefusedAfter(Duration),
}

/// After how many seconds each of three requests reached the server, and then a fourth.
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
                    First::AnsweredAfter(time) if number == 0 => sleep(time).await,
                    First::RefusedAfter(time) if number == 0 => {
                        sleep(time).await;
                        return Err(BoxError::from("connection refused"));
                    }
                    First::RefusedAfter(_) if number == 1 => sleep(SECOND).await,
                    _ => {}
                }
                Ok(Response::new(Body::empty()))
            }
        });
        let client = Client::new(service, "default");
        let server = ApiServer::new(client, "test", Encoding::Json, RateLimit::default());
        let ask = || Answer::to(&server, Asked::Watch, "/");
        let _ = tokio::join!(ask(), ask(), ask());
        let _ = ask().await;
        arrivals.lock().unwrap().clone()
    })
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_first_request_goes_ahead_until_it_is_answered() {
    assert_eq!(arrivals(First::AnsweredAfter(SECOND)), [0, 1, 1, 1]);
}

#[test]
fn the_next_one_is_first_when_there_was_no_answer() {
    assert_eq!(arrivals(First::RefusedAfter(SECOND)), [0, 1, 2, 2]);
}

#[test]
fn nobody_waits_long_for_a_slow_answer() {
    assert_eq!(arrivals(First::AnsweredAfter(SECOND * 30)), [0, 10, 10, 30]);
}
