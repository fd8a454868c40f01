//! The exported version follows a server, in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::super::api::tests::scripted::{Piece, Reply, client};
use super::super::api::{ApiClient, Encoding, RateLimit};
use super::super::{Ingester, change_channels, cluster};
use crate::telemetry::Metrics;

const MINUTE: Duration = Duration::from_secs(60);

/// Server with these responses to `/version`, one after the other. It accepts every watch.
fn server(versions: &'static [&'static str], asked: &Arc<Mutex<usize>>) -> ApiClient {
    let asked = Arc::clone(asked);
    let client = client(move |request| {
        if request.path != "/version" {
            return Reply::Answer(200, vec![Piece::Hang]);
        }
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        Reply::Answer(200, vec![Piece::Text(versions[*asked - 1].to_owned())])
    });
    ApiClient::new(client, "test", Encoding::Json, RateLimit::default())
}

/// Returns the labels of `kubernetes_build_info`; there must be one sample.
fn build_info(metrics: &Metrics) -> (String, String, String) {
    let families = metrics.registry.gather();
    let name = "kubernetes_build_info";
    let family = families.iter().find(|f| f.name() == name).unwrap();
    let [sample] = family.get_metric() else {
        panic!("{family:?}")
    };
    let label = |name| {
        let pair = sample.get_label().iter().find(|pair| pair.name() == name);
        pair.unwrap().value().to_owned()
    };
    (label("major"), label("minor"), label("git_version"))
}

#[tokio::test(start_paused = true)]
async fn the_version_of_the_server_is_exported_and_requested_once_an_hour() {
    const VERSIONS: [&str; 4] = [
        r#"{"major": "1", "minor": "34+", "gitVersion": "v1.34.2-eks-1b4a2"}"#,
        "<html></html>",
        r#"{"gitVersion": "latest"}"#,
        r#"{"gitVersion": "v1.35.0"}"#,
    ];
    let metrics = Metrics::new().unwrap();
    let asked = Arc::new(Mutex::new(0));
    let server = server(&VERSIONS, &asked);
    let (senders, _receivers) = change_channels(None);
    let ingester = Ingester::new(senders, "node".into());
    let began = Instant::now();
    let follow = cluster::follow(&server, "node", ingester, &metrics);
    tokio::pin!(follow);
    let expect = |minor: &str, git_version: &str| {
        let expected = ("1".to_owned(), minor.to_owned(), git_version.to_owned());
        assert_eq!(build_info(&metrics), expected);
    };
    expect("37", "v1.37.2+deltaproxy-0.1.0");
    // What cannot be used changes nothing, and is requested again after ten minutes.
    for (minutes, requests, minor, git_version) in [
        (1, 1, "34", "v1.34.2+deltaproxy-0.1.0"),
        (59, 1, "34", "v1.34.2+deltaproxy-0.1.0"),
        (61, 2, "34", "v1.34.2+deltaproxy-0.1.0"),
        (71, 3, "34", "v1.34.2+deltaproxy-0.1.0"),
        (81, 4, "35", "v1.35.0+deltaproxy-0.1.0"),
    ] {
        let ended = timeout_at(began + MINUTE * minutes, &mut follow).await;
        assert!(ended.is_err());
        assert_eq!(*asked.lock().unwrap(), requests, "after {minutes} minutes");
        expect(minor, git_version);
    }
}
