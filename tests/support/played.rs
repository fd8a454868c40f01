//! API servers that a test plays on loopback, and kubeconfigs that lead to them.

use std::fs;
use std::io::{self, BufRead};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Serves each connection on a thread that ends with the test.
pub fn listen(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), Arc::clone(&serve));
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// An address at which nothing listens.
pub fn closed() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Reads the lines of a request without a body, the empty one excluded.
pub fn head(request: &mut impl BufRead) -> io::Result<Vec<String>> {
    let lines = request
        .lines()
        .take_while(|line| !matches!(line, Ok(line) if line.is_empty()));
    lines.collect()
}

/// A response in HTTP/1.1.
pub fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// A list without objects, of the kind that a request with this path is for.
pub fn empty_list(path: &str) -> String {
    let (group, kind) = match path {
        path if path.contains("/services") => ("v1", "Service"),
        path if path.contains("/nodes") => ("v1", "Node"),
        _ => ("discovery.k8s.io/v1", "EndpointSlice"),
    };
    format!(
        r#"{{"kind":"{kind}List","apiVersion":"{group}","metadata":{{"resourceVersion":"1"}},"items":[]}}"#
    )
}

/// Returns the certificate `NAME.pem` and the key `NAME.key` of a folder.
pub fn certificate_and_key(
    folder: &Path,
    name: &str,
) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    let certificate = CertificateDer::from_pem_file(file("pem")).unwrap();
    (
        certificate,
        PrivateKeyDer::from_pem_file(file("key")).unwrap(),
    )
}

/// Text of a kubeconfig whose context, cluster and user have this name, with these fields of the
/// cluster and of the user.
pub fn kubeconfig_text(name: &str, cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: {name}
contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}}}}}]
clusters: [{{name: {name}, cluster: {{{cluster}}}}}]
users: [{{name: {name}, user: {{{user}}}}}]
"
    )
}

/// Writes such a kubeconfig into a folder, and returns its path.
pub fn kubeconfig(folder: &Path, cluster: &str, user: &str) -> PathBuf {
    let path = folder.join("kubeconfig");
    fs::write(&path, kubeconfig_text("c", cluster, user)).unwrap();
    path
}

/// Writes such a kubeconfig into a folder, and returns the flag that names it.
pub fn kubeconfig_flag(folder: &Path, cluster: &str, user: &str) -> String {
    let path = kubeconfig(folder, cluster, user);
    format!("--kubeconfig={}", path.display())
}
