//! Whether the thread that does everything but pages goes on.
//!
//! Apart because the pages have a thread of their own: they would go on saying that all is well
//! while the other is stuck for good, and nobody would restart the process.
//!
//! Differs from upstream, where `/livez` depends on syncs alone: a process that is stuck while none
//! is due stays alive for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::request::Parts;

use super::HealthPages;
use super::server::Work;
use crate::telemetry::Reply;

/// Beats in the time that a thread may be silent: enough for a busy one to miss some.
const BEATS: u32 = 4;

/// The last sign of a thread. Clones are of the same.
#[derive(Debug, Clone)]
pub struct Pulse {
    last: Arc<Mutex<Instant>>,
    /// After which sign it was told that no further one came.
    told: Arc<Mutex<Option<Instant>>>,
    patience: Duration,
}

impl Pulse {
    /// Of a thread that may be silent for so long.
    pub fn new(patience: Duration) -> Self {
        let last = Arc::new(Mutex::new(now()));
        Self {
            last,
            told: Arc::default(),
            patience,
        }
    }

    /// Gives a sign again and again. To be polled by the thread that it is about.
    pub async fn beat<T>(&self) -> T {
        loop {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now();
            tokio::time::sleep(self.patience / BEATS).await;
        }
    }

    /// Answers for the thread: while it goes on, as `pages` would; else that nothing is healthy, in
    /// the same form.
    pub fn answer(&self, pages: &HealthPages, request: &Parts) -> Reply {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = now().saturating_duration_since(last);
        if silent < self.patience {
            return pages.answer(request);
        }
        self.tell(last, silent);
        pages.answer_while(Work::Stands, request)
    }

    /// Once for each time that the thread is stuck, and on a thread that nobody waits for: what it
    /// is stuck in may be the log.
    fn tell(&self, last: Instant, silent: Duration) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.replace(last) != Some(last) {
            std::thread::spawn(move || tracing::error!("nothing has been done for {silent:?}"));
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where a request meets the clock"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use http::{Request, StatusCode};
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;
    use crate::health::{Health, NodeState};
    use crate::net::IpFamily;
    use crate::telemetry::Metrics;

    fn pages() -> HealthPages {
        let health = Health::new(Duration::from_secs(30));
        health.update(|health| health.node(NodeState::Eligible));
        health.update(|health| health.started(IpFamily::V4, now()));
        let metrics = Metrics::new().unwrap();
        HealthPages {
            health,
            metrics: metrics.health,
            watches: metrics.watch.ages,
        }
    }

    fn ask(pulse: &Pulse, path: &str) -> Reply {
        let request = Request::get(path).body(()).unwrap();
        pulse.answer(&pages(), &request.into_parts().0)
    }

    #[tokio::test]
    async fn silence_is_not_health() {
        let patience = Duration::from_millis(100);
        let status = |pulse: &Pulse, path| ask(pulse, path).status();
        let pulse = Pulse::new(Duration::from_secs(3600));
        assert_eq!(status(&pulse, "/livez"), StatusCode::OK);
        assert_eq!(status(&pulse, "/healthz"), StatusCode::OK);
        let stuck = Pulse::new(Duration::ZERO);
        assert_eq!(status(&stuck, "/livez"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&stuck, "/healthz"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&stuck, "/other"), StatusCode::NOT_FOUND);

        // Once it goes on, all is well again.
        let pulse = Pulse::new(patience);
        let born = *pulse.last.lock().unwrap();
        let beats = tokio::time::timeout(patience, pulse.beat::<()>()).await;
        assert!(beats.is_err());
        assert!(*pulse.last.lock().unwrap() > born + patience / 3);
    }

    /// Who reads when a family was updated last finds it in every answer.
    #[tokio::test]
    async fn silence_says_as_much_as_health() {
        let [going, stuck] = [Duration::from_secs(3600), Duration::ZERO].map(Pulse::new);
        for path in ["/livez", "/healthz"] {
            let mut said = Vec::new();
            for pulse in [&going, &stuck] {
                let body = ask(pulse, path).into_body().collect().await.unwrap();
                let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
                said.push(body);
            }
            let keys = |body: &Value| {
                body.as_object()
                    .unwrap()
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
            };
            assert_eq!(keys(&said[0]), keys(&said[1]), "{path}");
            assert!(keys(&said[0]).contains(&"lastUpdated".to_owned()));
            assert_eq!(said[0]["healthy"], true, "{path}");
            assert_eq!(said[1]["healthy"], false, "{path}");
        }
    }
}
