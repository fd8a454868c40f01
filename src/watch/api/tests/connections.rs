//! A server that sends pings and no events, one that is dead, and one that sends GOAWAY: HTTP/2
//! over pipes in memory, so that minutes are virtual.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::Config;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::Instant;
use tower::BoxError;

use super::super::transport::client_over;
use super::super::{ApiClient, Encoding, RateLimit};
use super::pipe::{ClientEnd, Http};
use super::script::*;
use super::scripted::respond;

/// Orders to the server about its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Responds, and acknowledges pings.
    Serve,
    /// Reads no more from those that there are.
    Freeze,
    /// Sends GOAWAY; requests in progress continue.
    GoAway,
    /// Closes those that there are.
    Close,
}

type Log = Arc<Mutex<Vec<String>>>;

/// Serves one connection. An order that comes later is for it; the last one before is not.
async fn serve(
    number: usize,
    pipe: DuplexStream,
    answer: fn(&Asked) -> Reply,
    mut orders: watch::Receiver<Order>,
    log: Log,
) {
    let asked = service_fn(move |request: Request<Incoming>| {
        let asked = Asked::of(&request);
        let after = asked.value("resourceVersion").unwrap_or("-");
        log.lock().unwrap().push(format!("{number}: after {after}"));
        respond(answer(&asked))
    });
    let builder = http2::Builder::new(TokioExecutor::new());
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(pipe), asked));
    loop {
        tokio::select! {
            _ = &mut connection => return,
            changed = orders.changed() => {
                let order = *orders.borrow_and_update();
                match order {
                    Order::Close => return,
                    _ if changed.is_err() => return,
                    Order::Serve => {}
                    Order::GoAway => connection.as_mut().graceful_shutdown(),
                    Order::Freeze => std::future::pending().await,
                }
            }
        }
    }
}

/// Follows a server over HTTP/2 for so long, with orders to it at these times, in seconds. Which
/// connection heard what, and the transcript of the client.
fn followed(
    seconds: u64,
    orders: &[(u64, Order)],
    answer: fn(&Asked) -> Reply,
) -> (Vec<String>, Vec<String>) {
    paused().block_on(async {
        let (order, ordered) = watch::channel(Order::Serve);
        let log = Log::default();
        let (heard, mut connections) = (Arc::clone(&log), 0);
        let connector = Arc::new(Mutex::new(move || {
            connections += 1;
            let (client, server) = duplex(64 * 1024);
            let mut orders = ordered.clone();
            orders.mark_unchanged();
            let heard = Arc::clone(&heard);
            tokio::spawn(serve(connections, server, answer, orders, heard));
            ClientEnd::new(client, Http::Two)
        }));
        let connector = tower::service_fn(move |_: Uri| {
            let end = (*connector.lock().unwrap())();
            std::future::ready(Ok::<_, BoxError>(end))
        });
        let config = Config::new("http://test".parse().unwrap());
        let client = client_over(move |_| Ok(connector.clone()), config, None).unwrap();
        let limit = RateLimit::default();
        let server = ApiClient::new(client, "test", Encoding::Json, limit);
        let began = Instant::now();
        let give = async {
            for (second, what) in orders {
                tokio::time::sleep_until(began + Duration::from_secs(*second)).await;
                order.send_replace(*what);
            }
            std::future::pending::<()>().await;
        };
        let time = Duration::from_secs(seconds);
        let following = follow_with(time, (server, Transcript::default()));
        let transcript = tokio::select! {
            transcript = following => transcript,
            () = give => unreachable!("it waits for ever"),
        };
        let log = log.lock().unwrap().clone();
        (log, transcript)
    })
}

/// The whole state at 5, and then nothing more.
fn silent(asked: &Asked) -> Reply {
    match asked.value("resourceVersion") {
        None => open(&[event("ADDED", &service("a", "3")), end_of_list("5")]),
        Some(_) => open(&[]),
    }
}

/// The whole state at 5, and a change that comes 100 s later.
fn slow(asked: &Asked) -> Reply {
    match asked.value("resourceVersion") {
        None => {
            let listed = [event("ADDED", &service("a", "3")), end_of_list("5")];
            let change = event("ADDED", &service("b", "6"));
            Reply::Answer(
                200,
                vec![
                    Piece::Text(listed.concat()),
                    Piece::Wait(Duration::from_secs(100)),
                    Piece::Text(change),
                    Piece::Wait(Duration::from_secs(20)),
                ],
            )
        }
        Some(_) => open(&[]),
    }
}

const LISTED: [&str; 3] = ["listing", "set a", "listed"];

#[test]
fn a_watch_with_pings_and_no_events_is_opened_again() {
    let (heard, transcript) = followed(179, &[], silent);
    assert_eq!(heard, ["1: after -"]);
    assert_eq!(transcript, LISTED);
    // On the same connection: it works.
    let (heard, transcript) = followed(181 + 180, &[], silent);
    assert_eq!(heard, ["1: after -", "1: after 5", "1: after 5",]);
    assert_eq!(transcript, LISTED);
}

#[test]
fn a_dead_server_is_detected_within_45_seconds() {
    // Frozen after 10 s; a ping may have been answered until then, and is due after 30 s.
    let (heard, transcript) = followed(10 + 45 + 2, &[(10, Order::Freeze)], silent);
    assert_eq!(heard, ["1: after -", "2: after 5"]);
    assert_eq!(transcript, [&LISTED[..], &["failed broken"]].concat());
}

#[test]
fn a_goaway_loses_no_events() {
    // The watch goes on where it is, and the next one is on a new connection.
    let (heard, transcript) = followed(150, &[(10, Order::GoAway)], slow);
    assert_eq!(heard, ["1: after -", "2: after 6"]);
    assert_eq!(transcript, [&LISTED[..], &["set b"]].concat());
}

#[test]
fn a_closed_connection_is_replaced() {
    let (heard, transcript) = followed(20, &[(10, Order::Close)], slow);
    assert_eq!(heard, ["1: after -", "2: after 5"]);
    assert_eq!(transcript, [&LISTED[..], &["failed broken"]].concat());
}
