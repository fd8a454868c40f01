//! Requests to an API server, which is here a socket that never replies.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::scene::{Ended, UNSERVED, dry_run};
use super::table::Row;

/// How long a busy machine may take to ask.
const PATIENCE: Duration = Duration::from_secs(30);

/// No program listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

/// A server that is out of order, and the requests that came to it, in lower case.
fn listen() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, requests) = channel();
    // It ends with the first connection after the receiver is dropped, or with the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut piece) = (Vec::new(), [0; 1024]);
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(length @ 1..) => head.extend_from_slice(&piece[..length]),
                    _ => break,
                }
            }
            let answer = "HTTP/1.1 503 x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
            let head = String::from_utf8_lossy(&head).to_lowercase();
            if asked.send(head).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

/// The first request for the Node.
#[track_caller]
fn first(requests: &Receiver<String>, flags: &[&str]) -> String {
    let _running = Ended(dry_run(&[flags, &UNSERVED].concat()).spawn().unwrap());
    loop {
        let heard = requests.recv_timeout(PATIENCE).unwrap();
        if heard.starts_with("get /api/v1/nodes?") {
            return heard;
        }
    }
}

fn kubeconfig(folder: &Path, server: &str) -> String {
    let file = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: secret}}}}]\n"
    );
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// `--master`: alone, and in place of what the kubeconfig says.
pub fn at_an_address(row: &Row, folder: &Path) {
    let (address, requests) = listen();
    let master = format!("--{}=http://{address}", row.flag);
    let name = "--hostname-override=Node-1";
    let heard = first(&requests, &[&master, name]);
    assert!(
        heard.contains("fieldselector=metadata.name%3dnode-1&"),
        "{heard}"
    );
    assert!(!heard.contains("authorization"), "{heard}");
    let file = format!("--kubeconfig={}", kubeconfig(folder, NOWHERE));
    let heard = loop {
        // Of the program before, one more may be under way.
        let heard = first(&requests, &[&master, &file]);
        if heard.contains("authorization") {
            break heard;
        }
    };
    assert!(
        heard.contains("authorization: bearer secret\r\n"),
        "{heard}"
    );
}

/// `--kube-api-content-type`: what is accepted, and a list in no other form.
pub fn in_an_encoding(row: &Row, _: &Path) {
    for (flag, takes_protobuf) in [(Some(row.typed()), false), (None, true)] {
        let (address, requests) = listen();
        let master = format!("--master=http://{address}");
        let flags: Vec<&str> = flag.iter().map(String::as_str).chain([&*master]).collect();
        let heard = first(&requests, &flags);
        let accepted = heard
            .lines()
            .find(|line| line.starts_with("accept: "))
            .unwrap();
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(accepted.contains(protobuf), takes_protobuf, "{heard}");
        assert!(accepted.contains("application/json"), "{heard}");
    }
}
