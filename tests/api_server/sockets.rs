//! A peer on a real socket, with TLS, that breaks off in the middle of an event.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltaproxy::testing::watch::api::{ApiOptions, ProxyEnvironment, build_client};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::support::certificate::self_signed;
use crate::support::played::{certificate_and_key, kubeconfig};

use super::cluster::{Cluster, Kind, Written, reply, service, slice};
use super::node::{follow_until, listed};
use super::scripted::{Asked, Piece, Reply, respond};

/// Time that a busy machine may need for a few requests and a wait of two seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Version of HTTP that is spoken over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Http {
    One,
    Two,
}

/// End of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The socket is closed without a TLS alert.
    Closed,
    /// The socket is reset.
    Reset,
}

/// A server whose first stream of each kind ends within an event.
struct Server {
    before: Cluster,
    after: Cluster,
    /// The kinds whose first stream is under way.
    broken: Mutex<Vec<Kind>>,
    /// All of them are.
    is_due: Notify,
}

impl Server {
    fn answer(&self, asked: &Asked) -> Reply {
        let (kind, written) = (Kind::of(asked), Written::Protobuf);
        let mut broken = self.broken.lock().unwrap();
        if broken.contains(&kind) {
            return self.after.answer(asked, written);
        }
        broken.push(kind);
        if broken.len() == 3 {
            self.is_due.notify_waiters();
        }
        let changes = self
            .after
            .changes(kind, self.before.version(), written)
            .concat();
        let stream = [
            self.before.initial(kind, written).concat(),
            changes[..changes.len() / 2].to_vec(),
        ];
        reply(written, vec![Piece::Bytes(stream.concat()), Piece::Hang])
    }

    /// Serves one connection, or ends it when the streams are to be broken off.
    async fn serve(self: Arc<Self>, stream: TcpStream, tls: TlsAcceptor, (http, end): (Http, End)) {
        let is_due = self.is_due.notified();
        tokio::pin!(is_due);
        is_due.as_mut().enable();
        if end == End::Reset {
            stream.set_zero_linger().unwrap();
        }
        let Ok(stream) = tls.accept(stream).await else {
            return;
        };
        let server = Arc::clone(&self);
        let answer = service_fn(move |request: Request<Incoming>| {
            respond(server.answer(&Asked::of(&request)))
        });
        let io = TokioIo::new(stream);
        let serving = async {
            match http {
                Http::One => drop(http1::Builder::new().serve_connection(io, answer).await),
                Http::Two => {
                    let builder = http2::Builder::new(TokioExecutor::new());
                    drop(builder.serve_connection(io, answer).await);
                }
            }
        };
        let due = async {
            is_due.await;
            // What was written reaches the client first.
            tokio::time::sleep(Duration::from_millis(300)).await;
        };
        // Dropped as it is: neither HTTP nor TLS says good-bye.
        tokio::select! {
            () = serving => {}
            () = due => {}
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn breaks_off(http: Http, end: End) {
    let folder = tempfile::tempdir().unwrap();
    if !self_signed(folder.path(), "server") {
        return;
    }
    let (certificate, key) = certificate_and_key(folder.path(), "server");
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    if http == Http::Two {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    let tls = TlsAcceptor::from(Arc::new(config));
    let before = Cluster::small();
    let mut after = before.clone();
    after.set(Kind::Service, service("a", 80));
    after.set(Kind::Slice, slice("a", 2));
    let expected = listed_elsewhere(after.clone());
    let server = Arc::new(Server {
        before,
        after,
        broken: Mutex::default(),
        is_due: Notify::new(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = async {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let serving = Arc::clone(&server).serve(stream, tls.clone(), (http, end));
            tokio::spawn(serving);
        }
    };
    let cluster = format!("server: 'https://{address}', insecure-skip-tls-verify: true");
    let options = ApiOptions {
        kubeconfigs: vec![kubeconfig(folder.path(), &cluster, "token: secret")],
        ..ApiOptions::default()
    };
    let client = build_client(&options, &ProxyEnvironment::default())
        .await
        .unwrap();
    tokio::select! {
        () = accepting => {}
        () = follow_until(&client, &expected, PATIENCE) => {}
    }
    assert_eq!(server.broken.lock().unwrap().len(), 3);
}

/// The rules of a fresh list; a runtime of its own is not for a thread that has one.
fn listed_elsewhere(cluster: Cluster) -> Vec<String> {
    std::thread::spawn(move || listed(&cluster)).join().unwrap()
}

#[test]
fn a_tls_peer_may_close_within_an_event() {
    breaks_off(Http::One, End::Closed);
    breaks_off(Http::Two, End::Closed);
}

#[test]
fn a_tls_peer_may_reset_within_an_event() {
    breaks_off(Http::One, End::Reset);
    breaks_off(Http::Two, End::Reset);
}
