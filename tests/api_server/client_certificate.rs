//! A server with TLS that requires client certificates, and a client whose certificate is rotated.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use deltaproxy::testing::watch::api::{
    ApiClient, ApiOptions, ProxyEnvironment, build_client, snapshot,
};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::support::certificate::{Usage, self_signed, signed};
use crate::support::played::{certificate_and_key, empty_list, kubeconfig};

/// Time that a list may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

fn certificate(folder: &Path, name: &str) -> CertificateDer<'static> {
    certificate_and_key(folder, name).0
}

/// Server that accepts certificates of the authority `ca` in the handshake.
fn acceptor(folder: &Path) -> TlsAcceptor {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(folder, "ca")).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .build()
        .unwrap();
    let (certificate, key) = certificate_and_key(folder, "server");
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Certificates of clients, in DER.
type Certificates = Arc<Mutex<Vec<CertificateDer<'static>>>>;

/// Responds to requests over one connection: with 401 if its certificate is one of `expired`, as an
/// API server checks it for each request.
async fn serve(
    stream: TcpStream,
    tls: TlsAcceptor,
    expired: Certificates,
    presented: Certificates,
) {
    let Ok(stream) = tls.accept(stream).await else {
        return;
    };
    let peer = stream.get_ref().1.peer_certificates().unwrap()[0]
        .clone()
        .into_owned();
    presented.lock().unwrap().push(peer.clone());
    let answer = service_fn(move |request: Request<Incoming>| {
        let is_expired = expired.lock().unwrap().contains(&peer);
        let body = empty_list(request.uri().path());
        let mut response = Response::new(Full::new(Bytes::from(body)));
        if is_expired {
            *response.status_mut() = http::StatusCode::UNAUTHORIZED;
        }
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let builder = http2::Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
}

/// Makes the client's files those of a certificate.
fn rotate_to(folder: &Path, name: &str) {
    for ending in ["pem", "key"] {
        let from = folder.join(format!("{name}.{ending}"));
        fs::copy(from, folder.join(format!("client.{ending}"))).unwrap();
    }
}

/// Lists the objects; the error is the status of the response, and the text.
async fn list(client: &ApiClient) -> Result<(), (Option<u16>, String)> {
    let listed = snapshot(client, "node", Some(DEADLINE)).await;
    listed
        .map(drop)
        .map_err(|error| (error.status(), error.in_full()))
}

async fn assert_rejected(client: &ApiClient) {
    let (status, text) = list(client).await.unwrap_err();
    assert_eq!(status, Some(401), "{text}");
}

#[tokio::test]
async fn new_connections_present_the_rotated_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if !self_signed(folder, "server") || !self_signed(folder, "ca") {
        return;
    }
    for name in ["one", "two", "three"] {
        signed(folder, "ca", name, Usage::Client);
    }
    let (expired, presented) = (Certificates::default(), Certificates::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tls, expired_now, log) = (
        acceptor(folder),
        Arc::clone(&expired),
        Arc::clone(&presented),
    );
    let accepting = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let serving = serve(
                stream,
                tls.clone(),
                Arc::clone(&expired_now),
                Arc::clone(&log),
            );
            tokio::spawn(serving);
        }
    });
    let expire = |name| expired.lock().unwrap().push(certificate(folder, name));
    let last = || presented.lock().unwrap().last().cloned().unwrap();

    rotate_to(folder, "one");
    let cluster = format!("server: 'https://{address}', insecure-skip-tls-verify: true");
    let user = "client-certificate: client.pem, client-key: client.key";
    let options = ApiOptions {
        kubeconfigs: vec![kubeconfig(folder, &cluster, user)],
        ..ApiOptions::default()
    };
    let client = build_client(&options, &ProxyEnvironment::default())
        .await
        .unwrap();
    list(&client).await.unwrap();
    assert_eq!(last(), certificate(folder, "one"));

    rotate_to(folder, "two");
    expire("one");
    assert_rejected(&client).await;
    list(&client).await.unwrap();
    assert_eq!(last(), certificate(folder, "two"));

    // Another key than that of the certificate, while only one of the files is replaced.
    fs::copy(folder.join("three.pem"), folder.join("client.pem")).unwrap();
    expire("two");
    assert_rejected(&client).await;
    assert_rejected(&client).await;
    fs::copy(folder.join("three.key"), folder.join("client.key")).unwrap();
    list(&client).await.unwrap();
    assert_eq!(last(), certificate(folder, "three"));
    accepting.abort();
}
