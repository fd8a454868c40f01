//! Lines of the log that an operator looks for.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::Dispatch;
use tracing::subscriber::{NoSubscriber, with_default};

use super::MINUTE;
use super::cluster::{Cluster, Kind, Written, reply};
use super::node::{followed, listed};
use super::scripted::{Asked, Piece, Reply};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Follows such a server to the rules of a cluster. Returns the lines that are logged of Services.
fn logged(cluster: &Cluster, answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Vec<String> {
    let expected = listed(cluster);
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    // With a single subscriber, a line that another thread reaches first, without one, counts as
    // disabled from then on.
    let _second = Dispatch::new(NoSubscriber::new());
    with_default(subscriber, || followed(MINUTE * 5, answer)).ends_as(&expected, "");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.contains("kind=\"Service\""));
    lines.map(str::to_owned).collect()
}

/// The log names what was wrong with an answer.
#[test]
fn what_is_wrong_with_an_answer_is_logged() {
    let cluster = Cluster::small();
    let body = vec![Piece::Bytes(vec![0x1f, 0x8b, 8, 0])];
    for (headers, expected) in [
        (
            vec![("content-encoding", "br")],
            "unsupported Content-Encoding `br`",
        ),
        (
            vec![("content-type", "text/html")],
            "unsupported Content-Type `text/html`: neither JSON nor protobuf",
        ),
        (vec![], "a line of a watch is incomplete or not JSON"),
    ] {
        let (mut version, healthy) = (None, cluster.clone());
        let wrong = Reply::With(200, headers, body.clone());
        let lines = logged(&cluster, move |asked| {
            match asked.value("resourceVersion") {
                Some(_) if Kind::of(asked) == Kind::Service && version.is_none() => {
                    version = Some(());
                    wrong.clone()
                }
                None if Kind::of(asked) == Kind::Service && version.is_none() => {
                    let initial = healthy.initial(Kind::Service, Written::Json).concat();
                    reply(Written::Json, vec![Piece::Bytes(initial), Piece::Break])
                }
                _ => healthy.answer(asked, Written::Json),
            }
        });
        let is_it = |line: &&String| {
            line.contains("list or watch failed; retrying") && line.contains(expected)
        };
        assert_eq!(lines.iter().filter(is_it).count(), 1, "{lines:#?}");
    }
}
