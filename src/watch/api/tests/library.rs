//! Reasons for an own reflector and transport: each test fails when `kube` no longer gives it.

use http::header::ACCEPT;
use kube::core::Request;
use kube::core::params::{ListParams, WatchParams};
use kube::{Client, Config};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::super::transport;

/// `kube::runtime`, which is not a dependency, has no test here: its reasons were read at this
/// version.
#[test]
fn kube_has_the_version_of_which_the_reasons_were_read() {
    let locked = include_str!("../../../../Cargo.lock");
    let expected = "name = \"kube-client\"\nversion = \"5.0.0\"\n";
    assert!(locked.contains(expected), "read the header of reflector.rs");
}

#[test]
fn requests_of_kube_do_not_accept_protobuf() {
    let services = Request::new("/api/v1/services");
    let list = services.list(&ListParams::default()).unwrap();
    let watch = services.watch(&WatchParams::default(), "5").unwrap();
    for request in [list, watch] {
        let accepted = request.headers().get(ACCEPT);
        let accepted = accepted.and_then(|value| value.to_str().ok());
        assert!(!accepted.is_some_and(|types| types.contains("protobuf")));
    }
}

/// Returns the first bytes that a client sends to a server with TLS.
async fn client_hello(client: impl FnOnce(Config) -> Client) -> Vec<u8> {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.root_cert = Some(Vec::new());
    let client = client(config);
    let received = async {
        let (mut connection, _) = server.accept().await.unwrap();
        let mut hello = vec![0; 4096];
        let length = connection.read(&mut hello).await.unwrap();
        hello.truncate(length);
        hello
    };
    let request = http::Request::get("/version").body(Vec::new()).unwrap();
    tokio::select! {
        hello = received => hello,
        answer = client.request_text(request) => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn only_this_client_offers_http_2() {
    let offers_http_2 = |hello: Vec<u8>| hello.windows(3).any(|bytes| bytes == b"\x02h2");
    let kube = client_hello(|config| Client::try_from(config).unwrap()).await;
    assert!(!offers_http_2(kube));
    let own = client_hello(|config| transport::client(config, None, false, None).unwrap()).await;
    assert!(offers_http_2(own));
}
