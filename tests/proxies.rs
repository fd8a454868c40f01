//! Commands that reach the API server through a proxy, as variables and `proxy-url` have it.
//!
//! Proxy and server listen on loopback. The name of the server exists only for the proxy, so a
//! request that goes elsewhere fails.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::support::certificate::{Usage, self_signed, signed};
use crate::support::played::{
    certificate_and_key, closed, empty_list, head, kubeconfig_flag, listen, response,
};
use crate::support::program::{PROGRAM, Ran, command};

/// Name that no resolver knows (RFC 6761).
const SERVER: &str = "http://api.cluster.test:6443";

/// An API server without any object.
fn api_server() -> SocketAddr {
    listen(|mut stream| {
        let mut request = BufReader::new(stream.try_clone()?);
        loop {
            let lines = head(&mut request)?;
            let Some(line) = lines.first() else {
                return Ok(());
            };
            let list = response("200 OK", &empty_list(line));
            stream.write_all(list.as_bytes())?;
        }
    })
}

/// Copies both ways until one side ends.
fn join(one: &TcpStream, other: SocketAddr) -> io::Result<()> {
    let other = TcpStream::connect(other)?;
    let (mut from, mut to) = (one.try_clone()?, other.try_clone()?);
    let up = std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    io::copy(&mut &other, &mut one.try_clone()?)?;
    let _ = one.shutdown(Shutdown::Both);
    let _ = up.join();
    Ok(())
}

/// Accepts TLS with the certificate `name`, and copies what is inside to and from `plain`.
fn with_tls(plain: SocketAddr, folder: &Path, name: &str) -> SocketAddr {
    let (certificate, key) = certificate_and_key(folder, name);
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    listen(move |stream| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        stream.set_nonblocking(true)?;
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream)?;
            let mut inside = tls.accept(stream).await?;
            let mut plain = tokio::net::TcpStream::connect(plain).await?;
            tokio::io::copy_bidirectional(&mut inside, &mut plain).await?;
            Ok(())
        })
    })
}

/// A proxy in front of an API server, and what it was asked for.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Answers CONNECT with this status, whatever host it names.
    fn http(status: &'static str) -> Self {
        Self::in_front_of(api_server(), status)
    }

    /// The same, in front of this server.
    fn in_front_of(server: SocketAddr, status: &'static str) -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&asked);
        let address = listen(move |mut stream| {
            // The client sends nothing more before the answer.
            let lines = head(&mut BufReader::new(stream.try_clone()?))?;
            let is_of_interest =
                |line: &&String| line.starts_with("CONNECT") || line.starts_with("Proxy-");
            let interesting = lines.iter().filter(is_of_interest).cloned();
            log.lock().unwrap().extend(interesting);
            write!(stream, "HTTP/1.1 {status}\r\n\r\n")?;
            if status.starts_with("200") {
                join(&stream, server)?;
            }
            Ok(())
        });
        Self { address, asked }
    }

    /// A SOCKS 5 proxy without authentication (RFC 1928).
    fn socks() -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (log, server) = (Arc::clone(&asked), api_server());
        let address = listen(move |mut stream| {
            let mut greeting = [0; 3];
            stream.read_exact(&mut greeting)?;
            assert_eq!(greeting, [5, 1, 0]);
            stream.write_all(&[5, 0])?;
            // CONNECT to a name, its length, the name and the port.
            let mut request = [0; 5];
            stream.read_exact(&mut request)?;
            assert_eq!(request[..4], [5, 1, 0, 3]);
            let mut name = vec![0; usize::from(request[4])];
            stream.read_exact(&mut name)?;
            let mut port = [0; 2];
            stream.read_exact(&mut port)?;
            let name = String::from_utf8_lossy(&name).into_owned();
            log.lock()
                .unwrap()
                .push(format!("{name} {}", u16::from_be_bytes(port)));
            stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
            join(&stream, server)
        });
        Self { address, asked }
    }

    #[track_caller]
    fn assert_asked(&self, expected: &[&str]) {
        let mut asked = self.asked.lock().unwrap().clone();
        // One connection or several, which depends on timing.
        asked.dedup();
        assert_eq!(asked, expected);
    }
}

fn kubeconfig(folder: &Path, proxy_url: &str) -> String {
    let cluster = format!("server: '{SERVER}', proxy-url: '{proxy_url}'");
    kubeconfig_flag(folder, &cluster, "token: secret")
}

/// Lists the Services of a cluster without one, with these variables.
fn services(flag: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = command(PROGRAM, &["services", flag]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    Ran::of(command.envs(variables.iter().copied()))
}

#[track_caller]
fn assert_listed(ran: &Ran) {
    assert!(ran.is_success(), "{ran:#?}");
}

/// Checks that no proxy was used: the name cannot be resolved.
#[track_caller]
fn assert_direct(ran: &Ran) {
    ran.fails(1, &["did not answer: "]);
    assert!(!ran.stderr.contains("proxy"), "{ran:#?}");
}

#[test]
fn lists_go_through_the_proxy_of_the_environment() {
    let flag = format!("--master={SERVER}");
    for variable in ["HTTP_PROXY", "http_proxy"] {
        let proxy = Proxy::http("200 OK");
        let value = format!("http://user:p%40ss@{}", proxy.address);
        assert_listed(&services(&flag, &[(variable, &value)]));
        let credentials = "Proxy-Authorization: Basic dXNlcjpwQHNz";
        proxy
            .asked
            .lock()
            .unwrap()
            .retain(|line| line.starts_with("Proxy-"));
        proxy.assert_asked(&[credentials]);
    }
    // Without a scheme it is HTTP, and upper case wins.
    let (proxy, other) = (Proxy::http("200 OK"), Proxy::http("200 OK"));
    let (upper, lower) = (proxy.address.to_string(), other.address.to_string());
    let variables = [("HTTP_PROXY", upper.as_str()), ("http_proxy", &lower)];
    assert_listed(&services(&flag, &variables));
    proxy.assert_asked(&["CONNECT api.cluster.test:6443 HTTP/1.1"]);
    other.assert_asked(&[]);
    // The server has no TLS.
    assert_direct(&services(&flag, &[("HTTPS_PROXY", &upper)]));
}

#[test]
fn no_proxy_excludes_servers() {
    let flag = format!("--master={SERVER}");
    let proxy = Proxy::http("200 OK");
    let address = format!("http://{}", proxy.address);
    for name in ["NO_PROXY", "no_proxy"] {
        let excluded = (name, "cluster.test");
        assert_direct(&services(&flag, &[("HTTP_PROXY", &address), excluded]));
    }
    // A server on loopback is never behind the proxy of the environment.
    let loopback = format!("--master=http://{}", api_server());
    assert_listed(&services(&loopback, &[("HTTP_PROXY", &address)]));
    proxy.assert_asked(&[]);
}

#[test]
fn proxy_url_of_the_kubeconfig_wins_over_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, other) = (Proxy::http("200 OK"), Proxy::http("200 OK"));
    let flag = kubeconfig(folder.path(), &format!("http://{}", proxy.address));
    let environment = format!("http://{}", other.address);
    let variables = [("HTTP_PROXY", environment.as_str()), ("NO_PROXY", "*")];
    // `NO_PROXY` is not for it either.
    for variables in [&variables[..1], &variables] {
        assert_listed(&services(&flag, variables));
    }
    proxy.assert_asked(&["CONNECT api.cluster.test:6443 HTTP/1.1"]);
    other.assert_asked(&[]);
    // Without one, the environment counts for a kubeconfig as well.
    assert_listed(&services(&kubeconfig(folder.path(), ""), &variables[..1]));
    other.assert_asked(&["CONNECT api.cluster.test:6443 HTTP/1.1"]);
    assert_direct(&services(&kubeconfig(folder.path(), ""), &variables));
}

#[test]
fn a_socks_proxy_resolves_the_name_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::socks();
    let flag = kubeconfig(folder.path(), &format!("socks5://{}", proxy.address));
    assert_listed(&services(&flag, &[]));
    proxy.assert_asked(&["api.cluster.test 6443"]);
}

#[test]
fn a_proxy_that_refuses_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |address: SocketAddr, cause: &str| {
        let flag = kubeconfig(folder.path(), &format!("http://user:secret@{address}"));
        let ran = services(&flag, &[]);
        let expected = format!("cannot connect through proxy `http://{address}`: {cause}");
        ran.fails(1, &[&expected]);
        assert!(!ran.stderr.contains("secret"), "{ran:#?}");
    };
    refused(
        Proxy::http("403 Forbidden").address,
        "the proxy refused the connection",
    );
    refused(
        Proxy::http("407 No").address,
        "the proxy requires a user and a password",
    );
    refused(closed(), "Connection refused");
    let invalid = services(&kubeconfig(folder.path(), "ftp://proxy"), &[]);
    let expected = "proxy-url `ftp://proxy` is not a valid URL of an http, https or socks5 proxy";
    invalid.fails(1, &[expected]);
}

/// Writes the certificates `server` and `proxy`, which the authorities `server-ca` and `proxy-ca`
/// have signed, and both authorities to `ca.pem`. Returns `false` without openssl.
fn certificates(folder: &Path) -> bool {
    let mut all = String::new();
    for (authority, name) in [("server-ca", "server"), ("proxy-ca", "proxy")] {
        if !self_signed(folder, authority) {
            return false;
        }
        signed(folder, authority, name, Usage::Server);
        all += &fs::read_to_string(folder.join(format!("{authority}.pem"))).unwrap();
    }
    fs::write(folder.join("ca.pem"), all).unwrap();
    true
}

/// Returns the flag for a kubeconfig with a server and a proxy with TLS.
fn tls_kubeconfig(folder: &Path, authority: &str, server: &str, proxy: &str) -> String {
    let authority = folder.join(authority);
    let cluster = format!(
        "server: '{server}', proxy-url: '{proxy}', certificate-authority: '{}', \
         tls-server-name: localhost",
        authority.display()
    );
    kubeconfig_flag(folder, &cluster, "token: secret")
}

/// The name of the server is not that of its proxy, which has the address 127.0.0.1.
#[test]
fn lists_go_through_a_proxy_with_tls() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if !certificates(folder) {
        return;
    }
    // With and without TLS of the server inside.
    for (server, url) in [
        (
            with_tls(api_server(), folder, "server"),
            "https://api.cluster.test:6443",
        ),
        (api_server(), SERVER),
    ] {
        let plain = Proxy::in_front_of(server, "200 OK");
        let proxy = with_tls(plain.address, folder, "proxy");
        let address = format!("https://{proxy}");
        assert_listed(&services(
            &tls_kubeconfig(folder, "ca.pem", url, &address),
            &[],
        ));
        plain.assert_asked(&["CONNECT api.cluster.test:6443 HTTP/1.1"]);

        plain.asked.lock().unwrap().clear();
        let flag = tls_kubeconfig(folder, "ca.pem", url, "");
        let variables = ["HTTPS_PROXY", "HTTP_PROXY"].map(|name| (name, address.as_str()));
        assert_listed(&services(&flag, &variables));
        plain.assert_asked(&["CONNECT api.cluster.test:6443 HTTP/1.1"]);
    }
}

#[test]
fn a_proxy_with_an_unknown_certificate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if !certificates(folder) {
        return;
    }
    let plain = Proxy::in_front_of(with_tls(api_server(), folder, "server"), "200 OK");
    let proxy = with_tls(plain.address, folder, "proxy");
    let url = format!("https://user:secret@{proxy}");
    let server = "https://api.cluster.test:6443";
    let ran = services(&tls_kubeconfig(folder, "server-ca.pem", server, &url), &[]);
    let expected = format!(
        "error: the API server `{server}/`: cannot connect through proxy `https://{proxy}`: \
         the certificate of the proxy is not trusted: UnknownIssuer\n\
         hint: check `proxy-url` of the kubeconfig, or HTTPS_PROXY, HTTP_PROXY and NO_PROXY; the \
         certificate authority of the kubeconfig is for the proxy as well\n"
    );
    assert_eq!(ran.stderr, expected);

    // The proxy is trusted, and the server behind it is not.
    let ran = services(&tls_kubeconfig(folder, "proxy-ca.pem", server, &url), &[]);
    let expected = "the certificate of the server is not trusted: UnknownIssuer\n";
    ran.fails(1, &[expected]);
}

/// Without TLS the configuration of a server has no certificate authority.
#[test]
fn authorities_of_the_system_verify_the_proxy_of_a_server_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if !certificates(folder) {
        return;
    }
    let plain = Proxy::http("200 OK");
    let url = format!("https://{}", with_tls(plain.address, folder, "proxy"));
    let flag = format!("--master={SERVER}");
    let list = |system: &str| {
        let file = folder.join(system);
        let variables = [
            ("HTTP_PROXY", url.as_str()),
            ("SSL_CERT_FILE", file.to_str().unwrap()),
        ];
        services(&flag, &variables)
    };
    assert_listed(&list("proxy-ca.pem"));
    plain.assert_asked(&["CONNECT api.cluster.test:6443 HTTP/1.1"]);
    let expected = "the certificate of the proxy is not trusted: UnknownIssuer";
    list("server-ca.pem").fails(1, &[expected]);
}
