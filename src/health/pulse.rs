//! Whether the thread that does everything but pages goes on.
//!
//! Apart because the pages have a thread of their own: they would go on saying that all is well while
//! the other is stuck for good, and nobody would restart the process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use http::request::Parts;

use super::HealthPages;
use crate::telemetry::{Reply, reply};

/// Beats in the time that a thread may be silent: enough for a busy one to miss some.
const BEATS: u32 = 4;

/// The last sign of a thread. Clones are of the same.
#[derive(Debug, Clone)]
pub struct Pulse {
    last: Arc<Mutex<Instant>>,
    patience: Duration,
}

impl Pulse {
    /// Of a thread that may be silent for so long.
    pub fn new(patience: Duration) -> Self {
        let last = Arc::new(Mutex::new(now()));
        Self { last, patience }
    }

    /// Gives a sign again and again. To be polled by the thread that it is about.
    pub async fn beat<T>(&self) -> T {
        loop {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now();
            tokio::time::sleep(self.patience / BEATS).await;
        }
    }

    /// Answers for the thread: as `pages` would while it goes on, else that it does not.
    pub fn answer(&self, pages: &HealthPages, request: &Parts) -> Reply {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match request.uri.path() {
            "/healthz" => |pages: &HealthPages| pages.metrics.healthz("503"),
            "/livez" => |pages: &HealthPages| pages.metrics.livez("503"),
            _ => return pages.answer(request),
        };
        let silent = now().saturating_duration_since(last);
        if silent < self.patience {
            return pages.answer(request);
        }
        count(pages);
        tracing::error!("nothing has been done for {silent:?}");
        let body = r#"{"healthy":false}"#;
        reply(StatusCode::SERVICE_UNAVAILABLE, "application/json", body)
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
    use http::Request;

    use super::*;
    use crate::health::Health;
    use crate::telemetry::Metrics;

    #[tokio::test]
    async fn silence_is_not_health() {
        let pages = HealthPages {
            health: Health::new(Duration::from_secs(30)),
            metrics: Metrics::new().unwrap().health,
        };
        let ask = |pulse: &Pulse, path| {
            let request = Request::get(path).body(()).unwrap();
            pulse.answer(&pages, &request.into_parts().0).status()
        };
        let patience = Duration::from_millis(100);
        let pulse = Pulse::new(Duration::from_secs(3600));
        assert_eq!(ask(&pulse, "/livez"), StatusCode::OK);
        let stuck = Pulse::new(Duration::ZERO);
        assert_eq!(ask(&stuck, "/livez"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ask(&stuck, "/healthz"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ask(&stuck, "/other"), StatusCode::NOT_FOUND);

        // Once it goes on, all is well again.
        let pulse = Pulse::new(patience);
        let born = *pulse.last.lock().unwrap();
        let beats = tokio::time::timeout(patience, pulse.beat::<()>()).await;
        assert!(beats.is_err());
        assert!(*pulse.last.lock().unwrap() > born + patience / 3);
    }
}
