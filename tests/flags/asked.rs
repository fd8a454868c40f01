//! Requests to an API server, which is here a socket that never replies.

use std::io::{self, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::scene::{Ended, UNSERVED, dry_run};
use super::table::Row;
use crate::support::played::{self, head, kubeconfig_flag, response};

/// How long a busy machine may take to ask.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that is out of order, and the requests that came to it, in lower case.
fn listen() -> (SocketAddr, Receiver<String>) {
    let (asked, requests) = channel();
    let address = played::listen(move |mut stream| {
        let lines = head(&mut BufReader::new(stream.try_clone()?))?;
        stream.write_all(response("503 x", "").as_bytes())?;
        let text = lines.join("\n").to_lowercase();
        asked.send(text).map_err(io::Error::other)
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
    let file = kubeconfig_flag(folder, "server: 'http://127.0.0.1:1'", "token: secret");
    let heard = loop {
        // Of the program before, one more may be under way.
        let heard = first(&requests, &[&master, &file]);
        if heard.contains("authorization") {
            break heard;
        }
    };
    assert!(
        heard
            .lines()
            .any(|line| line == "authorization: bearer secret"),
        "{heard}"
    );
}
