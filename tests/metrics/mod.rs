//! What `/metrics` says, of a daemon that cannot do its work and beside a real kube-proxy.

mod beside;
mod scene;

use crate::support::daemon::{Backend, Daemon, Program, backend_programs};
use crate::support::netns::Netns;
use crate::support::node::{Node, with_restore};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs};

const QUEUED: &str = "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds";
const SUCCEEDED: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";

/// Which families have such a series.
fn families(netns: &Netns, name: &str) -> Result<Vec<&'static str>, String> {
    let (_, page) = http::get(netns, Daemon::METRICS, "/metrics")?;
    let has = |family: &&str| page.contains(&format!("{name}{{ip_family=\"{family}\"}}"));
    Ok(["IPv4", "IPv6"].into_iter().filter(has).collect())
}

/// Waits until these families have asked for a sync, and until those have had one.
#[track_caller]
fn waits(netns: &Netns, queued: &[&str], succeeded: &[&str]) {
    eventually(PATIENCE, || {
        let found = (families(netns, QUEUED)?, families(netns, SUCCEEDED)?);
        ensure(found.0 == queued && found.1 == succeeded, || {
            format!("{found:?}")
        })
    });
}

#[test]
fn a_family_that_never_succeeds_is_seen_to_wait() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let mended = node.manifests.path().join("mended");
    let script = format!("[ -e {} ] || exit 1\nexec $REAL \"$@\"", mended.display());
    let _daemon = node.start(with_restore(Backend::Nft, &script));
    waits(&node.netns, &["IPv4", "IPv6"], &["IPv6"]);
    std::fs::write(&mended, "").unwrap();
    waits(&node.netns, &["IPv4", "IPv6"], &["IPv4", "IPv6"]);
}

/// Nothing asks for a sync there, but the alert on stale rules has to know that one is wanted.
#[test]
fn a_server_that_never_answers_is_seen_in_what_waits() {
    needs!(Kernel);
    let netns = Netns::new("deaf");
    netns.ip("link set lo up");
    let bin = backend_programs(Backend::Nft);
    let args = ["--master=http://127.0.0.1:1", "--hostname-override=node1"];
    let _daemon = Daemon::start_with(&Program::Deltaproxy, &netns, bin, &args);
    waits(&netns, &["IPv4", "IPv6"], &[]);
    grows_stale(&netns);
}

/// The age of what is known is on the page of metrics, and has no effect on health.
#[track_caller]
fn grows_stale(netns: &Netns) {
    const KINDS: [&str; 3] = ["EndpointSlice", "Node", "Service"];
    eventually(PATIENCE, || {
        let (_, page) = http::get(netns, Daemon::METRICS, "/metrics")?;
        for kind in KINDS {
            let series = format!("deltaproxy_watch_staleness_seconds{{kind=\"{kind}\"}} ");
            let age = page.lines().find_map(|line| line.strip_prefix(&series));
            let age: f64 = age.ok_or("no age")?.parse().unwrap();
            ensure(age >= 1.0, || format!("{kind}: {age}"))?;
        }
        let (status, detail) = http::get(netns, Daemon::HEALTH, "/livez")?;
        ensure(status == 200, || detail)
    });
}
