//! What the API server counts of its requests.

use crate::support::kube::ControlPlane;

/// What a node's proxy may ask for. The server's own controllers ask for some of it, too.
const WATCHED: [&str; 4] = ["endpointslices", "nodes", "servicecidrs", "services"];
/// What a proxy may write.
const WRITTEN: &str = "events";
/// Whoever makes the changes uses other verbs.
const VERBS: [&str; 3] = ["GET", "LIST", "WATCH"];

/// Its metrics, as far as proxies move them.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Requests that have been answered to the end.
    finished: f64,
    /// Watches that are open.
    pub watches: f64,
}

impl Counted {
    /// Asks for `/metrics`, which costs the server some milliseconds.
    pub fn read(control: &ControlPlane) -> Self {
        let text = control.api().get("/metrics").expect("metrics");
        let mut counted = Self::default();
        for line in text.lines() {
            counted.add(line);
        }
        counted
    }

    fn add(&mut self, line: &str) {
        let Some((name, rest)) = line.split_once('{') else {
            return;
        };
        let resource = label(rest, "resource");
        let is_watched = WATCHED.contains(&resource);
        let value = || rest.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        match name {
            "apiserver_request_total" => {
                let verb = label(rest, "verb");
                if is_watched && VERBS.contains(&verb) || resource == WRITTEN {
                    self.finished += value();
                }
            }
            "apiserver_longrunning_requests" if is_watched => self.watches += value(),
            _ => {}
        }
    }

    /// Requests that were made: a watch is counted by the server only when it ends.
    pub fn requests(&self) -> f64 {
        self.finished + self.watches
    }
}

fn label<'l>(labels: &'l str, name: &str) -> &'l str {
    let mut parts = labels.split('"');
    while let (Some(before), Some(value)) = (parts.next(), parts.next()) {
        let key = before.trim_start_matches(',').trim_end_matches('=');
        if key == name {
            return value;
        }
    }
    ""
}
