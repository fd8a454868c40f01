//! Counts requests on their way to the server.
//!
//! Apart from the [transport](super::transport), as a layer of it, so that no request is left out,
//! whoever makes it: by now it has the server's address.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::{BoxError, Layer, Service};

use crate::telemetry::RequestMetrics;

/// Where requests are counted.
#[derive(Debug, Clone)]
pub(super) struct CountLayer(pub RequestMetrics);

/// A service whose requests are counted.
#[derive(Debug, Clone)]
pub(super) struct Counted<S> {
    inner: S,
    metrics: RequestMetrics,
}

impl<S> Layer<S> for CountLayer {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        let metrics = self.0.clone();
        Counted { inner, metrics }
    }
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // Dropped without an answer, by a failure or a caller that waits no longer, it says so.
        let sent = self.metrics.sent(&request);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Ok(answer) = &answer {
                sent.answered(answer.status());
            }
            answer
        })
    }
}
