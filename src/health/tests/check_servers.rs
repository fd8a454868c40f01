//! Servers over real sockets of the loopback interface.
//!
//! Upstream: `pkg/proxy/healthcheck/healthcheck_test.go`, `TestServer`,
//! `TestServerWithSelectiveListeningAddress` (v1.37)

use std::net::TcpListener as Blocker;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::events::{Origin, Writer, recorder};

const ONE: [u8; 4] = [127, 0, 0, 1];
const TWO: [u8; 4] = [127, 0, 0, 2];

fn servers() -> (CheckServers, Writer) {
    servers_with(100)
}

/// Servers with this number of sockets.
fn servers_with(sockets: usize) -> (CheckServers, Writer) {
    let (recorder, writer) = recorder(Origin::sample());
    let shared = CheckServerContext {
        health: Health::new(Duration::from_secs(30)),
        recorder,
        node_name: "node1".to_owned(),
        connection_limit: ConnectionLimit::new(16),
        sockets: Arc::new(Semaphore::new(sockets)),
    };
    (CheckServers::new(shared, IpFamily::V4), writer)
}

/// A port that is unused on both addresses.
fn free() -> Port {
    let one = Blocker::bind((IpAddr::from(ONE), 0)).unwrap();
    Port::new(one.local_addr().unwrap().port()).unwrap()
}

fn service(name: &str) -> ServiceName {
    ServiceName::new("ns", name)
}

/// What a sync says that changed these Services, with NodePorts on these addresses.
fn sync(addresses: &[[u8; 4]], changed: &[(&str, Option<(Port, usize)>)]) -> CheckChanges {
    let changed = changed.iter().map(|(name, check)| {
        let check = check.map(|(port, endpoints)| Check { port, endpoints });
        (service(name), check)
    });
    CheckChanges {
        addresses: CheckAddresses::Only(addresses.iter().copied().map(IpAddr::from).collect()),
        changed: changed.collect(),
    }
}

/// The response to a request, and its status; `None`: no socket listens, or the connection closes.
async fn response(ip: [u8; 4], port: Port) -> Option<String> {
    let mut stream = TcpStream::connect((IpAddr::from(ip), port.get()))
        .await
        .ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.ok()?;
    let name = reply.split("\"name\": \"").nth(1)?;
    let status = reply.split(' ').nth(1).unwrap();
    Some(format!("{} {status}", name.split('"').next().unwrap()))
}

/// Checks that the only event is a check that is not served, with this end of the reason.
#[track_caller]
fn check_not_served(events: &mut Writer, name: &str, reason: &str) {
    let told = events.queued_events();
    let [Event::CheckNotServed(of, note)] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(*of, service(name));
    assert!(note.ends_with(reason), "{note}");
}

#[tokio::test]
async fn ports_change_hands_within_one_sync() {
    let (mut servers, mut events) = servers();
    let (first, second) = (free(), free());
    let pair = |a, b| sync(&[ONE], &[("a", Some((a, 1))), ("b", Some((b, 1)))]);
    servers.take(&pair(first, second)).await;
    servers.take(&pair(second, first)).await;
    assert_eq!(response(ONE, first).await.as_deref(), Some("b 200"));
    assert_eq!(response(ONE, second).await.as_deref(), Some("a 200"));
    assert_eq!(events.queued_events(), []);
}

#[tokio::test]
async fn servers_follow_the_addresses() {
    let (mut servers, _events) = servers();
    let port = free();
    servers.take(&sync(&[ONE], &[("a", Some((port, 1)))])).await;
    assert_eq!(response(TWO, port).await, None);
    // What stays keeps its connections.
    let mut kept = TcpStream::connect((IpAddr::from(ONE), port.get()))
        .await
        .unwrap();
    servers.take(&sync(&[ONE, TWO], &[])).await;
    assert_eq!(response(TWO, port).await.as_deref(), Some("a 200"));
    kept.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut reply = String::new();
    kept.read_to_string(&mut reply).await.unwrap();
    assert!(reply.contains(" 200 OK"), "{reply}");

    servers.take(&sync(&[TWO], &[])).await;
    assert_eq!(response(ONE, port).await, None);
    assert_eq!(response(TWO, port).await.as_deref(), Some("a 200"));
    servers.take(&sync(&[], &[])).await;
    assert_eq!(response(TWO, port).await, None);
    // Of another family, or not to be had without an interface: no socket listens there.
    let others = ["::1", "fe80::1"].map(|ip| ip.parse().unwrap());
    let addresses = CheckAddresses::Only(others.to_vec());
    assert!(servers.addresses(&addresses).is_empty());
    servers.family = IpFamily::V6;
    assert_eq!(servers.addresses(&addresses), [others[0]].into());
}

#[tokio::test]
async fn several_addresses_of_a_port_need_one_socket() {
    let (mut servers, _events) = servers_with(1);
    let port = free();
    let three = [127, 0, 0, 3];
    let start = sync(&[ONE, TWO], &[("a", Some((port, 1)))]);
    servers.take(&start).await;
    for (ip, expected) in [(ONE, Some("a 200")), (TWO, Some("a 200")), (three, None)] {
        assert_eq!(response(ip, port).await.as_deref(), expected, "{ip:?}");
    }
    servers.take(&sync(&[TWO, three], &[])).await;
    for (ip, expected) in [(ONE, None), (TWO, Some("a 200")), (three, Some("a 200"))] {
        assert_eq!(response(ip, port).await.as_deref(), expected, "{ip:?}");
    }
    servers.take(&sync(&[], &[])).await;
    Blocker::bind((IpAddr::from(TWO), port.get())).unwrap();
}

#[tokio::test]
async fn a_taken_address_is_served_once_it_is_free_and_the_others_meanwhile() {
    let (mut servers, _events) = servers();
    let port = free();
    let blocker = Blocker::bind((IpAddr::from(ONE), port.get())).unwrap();
    let start = sync(&[ONE, TWO], &[("a", Some((port, 1)))]);
    servers.take(&start).await;
    assert_eq!(response(TWO, port).await.as_deref(), Some("a 200"));
    drop(blocker);
    servers.take(&sync(&[ONE, TWO], &[])).await;
    assert_eq!(response(ONE, port).await.as_deref(), Some("a 200"));
}

#[tokio::test]
async fn of_two_with_the_same_port_the_first_keeps_it() {
    let (mut servers, mut events) = servers();
    let port = free();
    let both = [("b", Some((port, 1))), ("c", Some((port, 1)))];
    servers.take(&sync(&[ONE], &both)).await;
    assert_eq!(response(ONE, port).await.as_deref(), Some("b 200"));
    check_not_served(&mut events, "c", "also the health check port of `ns/b`");
    // An earlier name that comes later has to wait as well.
    servers.take(&sync(&[ONE], &[("a", Some((port, 1)))])).await;
    assert_eq!(response(ONE, port).await.as_deref(), Some("b 200"));
    servers.take(&sync(&[ONE], &[("b", None)])).await;
    assert_eq!(response(ONE, port).await.as_deref(), Some("a 200"));
}

#[tokio::test]
async fn the_end_of_syncs_is_the_end_of_servers() {
    let (mut servers, _events) = servers();
    let port = free();
    servers.take(&sync(&[ONE], &[("a", Some((port, 1)))])).await;
    let (changes, receiver) = tokio::sync::mpsc::unbounded_channel();
    drop(changes);
    servers.run(receiver).await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(response(ONE, port).await, None);
}

#[tokio::test]
async fn ports_above_the_number_of_sockets_wait_for_one() {
    let (mut servers, mut events) = servers_with(1);
    let (one, two) = (free(), free());
    let both = [("a", Some((one, 1))), ("b", Some((two, 1)))];
    servers.take(&sync(&[ONE], &both)).await;
    check_not_served(&mut events, "b", "raise the limit of open files");
    assert_eq!(response(ONE, one).await.as_deref(), Some("a 200"));
    assert_eq!(response(ONE, two).await, None);
    servers.take(&sync(&[ONE], &[("a", None)])).await;
    assert_eq!(response(ONE, one).await, None);
    assert_eq!(response(ONE, two).await.as_deref(), Some("b 200"));
}
