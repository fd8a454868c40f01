//! Pages `/debug/flags`, `/debug/payload` and `/debug/pprof`, which `enableProfiling` turns on.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/apiserver/pkg/server/routes/flags.go`,
//! `cmd/kube-proxy/app/server.go`, `serveMetrics` (v1.36)

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};

use super::server::{Reply, TEXT, not_found, reply};
use crate::telemetry::LogLevel;

/// Setting `enableProfiling`.
#[derive(Debug, Clone)]
pub(crate) enum Debugging {
    /// All paths below `/debug/` are unknown.
    Off,
    /// The pages are served.
    On(DebugPages),
}

/// Parts of the process that the pages change and show.
#[derive(Debug, Clone)]
pub(crate) struct DebugPages {
    /// Log level that `/debug/flags/v` sets.
    pub level: LogLevel,
    /// Pages below `/debug/payload/`; `None`: not served, because clients on other hosts could
    /// read them.
    pub payloads: Option<PayloadPages>,
}

/// Readers of the last payloads of restores.
#[derive(Clone)]
pub(crate) struct PayloadPages {
    /// Returns the last applied payloads.
    pub applied: Arc<dyn Fn() -> String + Send + Sync>,
    /// Returns the last failed payloads.
    pub failed: Arc<dyn Fn() -> String + Send + Sync>,
}

impl fmt::Debug for PayloadPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PayloadPages").finish_non_exhaustive()
    }
}

/// Body of the response in place of payloads.
const NOT_LOOPBACK: &str =
    "payloads are served on a loopback address only: set --metrics-bind-address=127.0.0.1:10249\n";

/// Body of `/debug/flags` and of all paths below it that are not a flag.
const FLAGS: &str = "<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>

<tr>v<br>

</table>
<br>
full flags configurable<br>
</body>
</html>
";

/// Body of `/debug/pprof/` and all paths below it: recommends `perf` in place of Go's profiles.
///
/// Known sampling profilers walk the stack in a signal handler: with the unwinder of the C runtime
/// that takes locks and crashes (tikv/pprof-rs, issues 36 and 203; tikv/tikv, issue 9765), with
/// frame pointers the whole program has to be built for it. perf needs neither and works on a
/// process that is already slow.
const PROFILES: &str = "\
No profiles are served: this program is not written in Go, and sampling its stacks from inside takes
a signal handler that can crash it. perf samples them from outside:

  perf record --call-graph dwarf -p $(pidof deltaproxy kube-proxy) -o perf.data -- sleep 30
  perf report -i perf.data
  pprof -top perf.data

pprof is github.com/google/pprof, with perf_to_profile. Released binaries are stripped of function
names; build one that has them with cargo build --release --config profile.release.strip=false.
For CPU time by thread use top -H -p $(pidof deltaproxy kube-proxy). Memory in use is
process_resident_memory_bytes of /metrics.
";

/// Returns a page below `/debug/`.
pub(super) fn respond(debugging: &Debugging, request: &Request<Bytes>) -> Reply {
    let Debugging::On(pages) = debugging else {
        return not_found();
    };
    match request.uri().path() {
        "/debug/flags/v" => set_verbosity(&pages.level, request),
        "/debug/payload/applied" => payload(pages, |payloads| (payloads.applied)()),
        "/debug/payload/failed" => payload(pages, |payloads| (payloads.failed)()),
        "/debug/pprof/" => reply(StatusCode::OK, TEXT, PROFILES),
        path if path.starts_with("/debug/pprof/") => {
            reply(StatusCode::NOT_IMPLEMENTED, TEXT, PROFILES)
        }
        path if path == "/debug/flags" || path.starts_with("/debug/flags/") => {
            reply(StatusCode::OK, "text/html; charset=utf-8", FLAGS)
        }
        _ => not_found(),
    }
}

fn payload(pages: &DebugPages, text: impl Fn(&PayloadPages) -> String) -> Reply {
    match &pages.payloads {
        Some(payloads) => reply(StatusCode::OK, TEXT, text(payloads)),
        None => reply(StatusCode::FORBIDDEN, TEXT, NOT_LOOPBACK),
    }
}

/// Sets the log level that `-v` with this number stands for, until the process ends.
fn set_verbosity(level: &LogLevel, request: &Request<Bytes>) -> Reply {
    let plain = |status, text: String| reply(status, "text/plain", text + "\n");
    if request.method() != Method::PUT {
        let text = "unsupported http method\nhint: use `curl -X PUT -d 4` for -v=4".to_owned();
        return plain(StatusCode::NOT_ACCEPTABLE, text);
    }
    let text = String::from_utf8_lossy(request.body());
    let Ok(number) = text.parse::<i32>() else {
        let text = format!("failed set klog.logging.verbosity {text:?}: not a valid integer");
        return plain(StatusCode::BAD_REQUEST, text);
    };
    // Negative numbers log as 0 does, and no level is above 255.
    let verbosity = u8::try_from(number.max(0)).unwrap_or(u8::MAX);
    if !level.set(verbosity) {
        let text = "the log is closed".to_owned();
        return plain(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    tracing::info!(verbosity, "log level changed over HTTP");
    let text = format!("successfully set klog.logging.verbosity to {number}");
    plain(StatusCode::OK, text)
}

#[cfg(test)]
#[path = "tests/debug.rs"]
mod tests;
