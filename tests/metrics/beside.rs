//! What is counted of one history by kube-proxy and by deltaproxy: the same, but for what
//! `deploy/docs/metrics.md` says.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{Counts, Scene, elsewhere, of, same, says};
use crate::support::wait::ensure;
use crate::support::{needs, objects};

const LAST: &str = "sync_proxy_rules_iptables_last";
const TOTAL: &str = "sync_proxy_rules_iptables_total";
const FAILURES: &str = "sync_proxy_rules_iptables_restore_failures_total";
const PARTIAL_FAILURES: &str = "sync_proxy_rules_iptables_partial_restore_failures_total";
const NO_LOCAL: &str = "sync_proxy_rules_no_local_endpoints_total";
const SERVICES: &str = "sync_proxy_rules_service_changes_total";
const SLICES: &str = "sync_proxy_rules_endpoint_changes_total";
const SERVICES_PENDING: &str = "sync_proxy_rules_service_changes_pending";
const SLICES_PENDING: &str = "sync_proxy_rules_endpoint_changes_pending";

/// How long after the rules of a sync kube-proxy may count it.
const SETTLING: Duration = Duration::from_millis(500);

/// Depends on time: the number of requests until the program had started, the objects that
/// kube-proxy received meanwhile, and the changes that shared a sync.
const TIMING: [&str; 5] = [
    LAST,
    "proxy_livez_total",
    "sync_proxy_rules_duration_seconds_count",
    "sync_full_proxy_rules_duration_seconds_count",
    "sync_partial_proxy_rules_duration_seconds_count",
];

fn table(name: &str, family: &str, table: &str) -> String {
    format!("{name}{{ip_family=\"{family}\",table=\"{table}\"}}")
}

/// The ports without local endpoints of both policies, IPv4.
fn no_local(counts: &Counts, internal: u64, external: u64) -> Result<(), String> {
    let series = |family, policy| {
        format!("{NO_LOCAL}{{ip_family=\"{family}\",traffic_policy=\"{policy}\"}}")
    };
    says(
        counts,
        &[
            (&series("IPv4", "internal"), internal),
            (&series("IPv4", "external"), external),
            (&series("IPv6", "internal"), 0),
            (&series("IPv6", "external"), 0),
        ],
    )
}

/// Rules of the last sync of IPv4, in filter and nat.
fn last(counts: &Counts) -> (u64, u64) {
    let of_table = |name| of(counts, &table(LAST, "IPv4", name));
    (of_table("filter"), of_table("nat"))
}

/// Rules of IPv4, in filter and nat.
fn total(counts: &Counts) -> (u64, u64) {
    let of_table = |name| of(counts, &table(TOTAL, "IPv4", name));
    (of_table("filter"), of_table("nat"))
}

fn changed(counts: &Counts, services: u64, slices: u64) -> Result<(), String> {
    says(counts, &[(SERVICES, services), (SLICES, slices)])
}

struct Shop {
    web: Value,
    inside: Value,
    outside: [Value; 2],
}

impl Shop {
    fn new() -> Self {
        let service = |name, spec| objects::service(name, spec);
        let out =
            |ip, kind| json!({"clusterIP": ip, "type": kind, "externalTrafficPolicy": "Local"});
        Self {
            web: service("web", json!({"clusterIP": "10.96.1.1"})),
            inside: service(
                "inside",
                json!({"clusterIP": "10.96.1.2", "internalTrafficPolicy": "Local"}),
            ),
            outside: [
                service("outside", out("10.96.1.3", "LoadBalancer")),
                service("by-node", out("10.96.1.4", "NodePort")),
            ],
        }
    }

    /// Four Services, each with a slice; only the endpoints of one are here.
    fn first(&self) -> Vec<Value> {
        let [balanced, by_node] = &self.outside;
        vec![
            self.web.clone(),
            self.inside.clone(),
            balanced.clone(),
            by_node.clone(),
            self.slice(&["10.4.0.11", "10.4.0.12"]),
            elsewhere(&self.inside, &["10.4.1.1"]),
            elsewhere(balanced, &["10.4.1.2"]),
            elsewhere(by_node, &["10.4.1.3"]),
        ]
    }

    fn slice(&self, addresses: &[&str]) -> Value {
        objects::slice(&self.web, addresses)
    }
}

#[test]
fn one_history_is_counted_alike() {
    needs!(Upstream);
    let shop = Shop::new();
    let scene = Scene::new(&shop.first(), &[]);
    the_first_sync(&scene);
    one_endpoint(&scene, &shop);
    policies(&scene, &shop);
    removals(&scene, &shop);
    one_failure(&scene, &shop);
    health(&scene);
    many_failures(&scene);
}

/// With the API server's own Service there are five and five slices, all IPv4. Services are counted
/// once for each family.
fn the_first_sync(scene: &Scene) {
    scene.until(|theirs, ours| {
        same(theirs, ours, &TIMING)?;
        changed(ours, 10, 5)?;
        no_local(ours, 1, 2)?;
        ensure(last(ours) == total(ours), || "not all was written".into())
    });
}

/// kube-proxy writes all chains that Services share, and all chains of the one; deltaproxy the
/// one's choice of endpoints, which is three rules, and the two of the new endpoint.
fn one_endpoint(scene: &Scene, shop: &Shop) {
    scene.api().apply(&shop.slice(&["10.4.0.11", "10.4.0.13"]));
    scene.until(|theirs, ours| {
        same(theirs, ours, &TIMING)?;
        changed(ours, 10, 6)?;
        let (filter, nat) = last(theirs);
        ensure(filter == total(theirs).0 && nat > 5, || {
            "kube-proxy wrote less than it does".into()
        })?;
        ensure(last(ours) == (0, 5), || {
            "deltaproxy wrote something else".into()
        })
    });
}

fn policies(scene: &Scene, shop: &Shop) {
    let api = scene.api();
    api.apply(&objects::slice(&shop.inside, &["10.4.0.21"]));
    api.apply(&objects::slice(&shop.outside[0], &["10.4.0.22"]));
    scene.until(|theirs, ours| {
        same(theirs, ours, &TIMING)?;
        changed(ours, 10, 8)?;
        no_local(ours, 0, 1)
    });
    api.apply(&elsewhere(&shop.inside, &["10.4.1.1"]));
    api.apply(&elsewhere(&shop.outside[0], &["10.4.1.2"]));
    scene.until(|theirs, ours| {
        same(theirs, ours, &TIMING)?;
        changed(ours, 10, 10)?;
        no_local(ours, 1, 2)
    });
}

fn removals(scene: &Scene, shop: &Shop) {
    let api = scene.api();
    let [balanced, by_node] = &shop.outside;
    api.delete(&elsewhere(balanced, &[]));
    scene.until(|theirs, ours| {
        same(theirs, ours, &TIMING)?;
        changed(ours, 10, 11)?;
        no_local(ours, 1, 1)
    });
    api.delete(by_node);
    scene.until(|theirs, ours| {
        same(theirs, ours, &TIMING)?;
        changed(ours, 12, 11)?;
        no_local(ours, 1, 0)
    });
}

/// A partial restore that fails and the full one that follows, at once or a sync period later, are
/// two syncs.
fn one_failure(scene: &Scene, shop: &Shop) {
    let counted = |counts: &Counts| {
        let of_kind = |kind| {
            let name = format!("sync_{kind}proxy_rules_duration_seconds_count");
            of(counts, &format!("{name}{{ip_family=\"IPv4\"}}"))
        };
        [of_kind(""), of_kind("partial_"), of_kind("full_")]
    };
    let before = [&scene.theirs, &scene.ours].map(|of| {
        // kube-proxy shows the rules of a sync before it counts it.
        let mut known = counted(&of.counts().unwrap());
        loop {
            sleep(SETTLING);
            let now = counted(&of.counts().unwrap());
            if now == known {
                return now;
            }
            known = now;
        }
    });
    let one_more = before.map(|[all, partial, full]| [all + 2, partial + 1, full + 1]);
    scene.fail("once");
    scene.api().apply(&shop.slice(&["10.4.0.11", "10.4.0.14"]));
    scene.until(|theirs, ours| {
        same(theirs, ours, &TIMING)?;
        changed(ours, 12, 12)?;
        let family = "{ip_family=\"IPv4\"}";
        let failed = [FAILURES, PARTIAL_FAILURES].map(|name| format!("{name}{family}"));
        says(ours, &[(&failed[0], 1), (&failed[1], 1)])?;
        let now = [theirs, ours].map(counted);
        ensure(now == one_more, || format!("{now:?}, not {one_more:?}"))?;
        let is_whole = last(theirs) == total(theirs) && last(ours) == total(ours);
        ensure(is_whole, || "not all was written".into())
    });
}

fn health(scene: &Scene) {
    let [healthz, livez] =
        ["healthz", "livez"].map(|of| format!("proxy_{of}_total{{code=\"200\"}}"));
    for machine in [&scene.theirs, &scene.ours] {
        let before = machine.counts().unwrap();
        machine.ask("/healthz", 2);
        machine.ask("/livez", 3);
        let after = machine.counts().unwrap();
        let more = |series: &str| of(&after, series) - of(&before, series);
        assert_eq!((more(&healthz), more(&livez)), (2, 3));
    }
}

/// kube-proxy tells the rules that it would have, and that nothing waits, as soon as it has tried;
/// deltaproxy what is in the kernel, and what is not.
fn many_failures(scene: &Scene) {
    let before = total(&scene.ours.counts().unwrap());
    let late = objects::service("late", json!({"clusterIP": "10.96.1.9"}));
    scene.fail("broken");
    scene.api().apply(&late);
    // Without its Service a slice would have no rules, and nothing to wait for.
    scene.until(|_, ours| says(ours, &[(SERVICES_PENDING, 1)]));
    scene.api().apply(&objects::slice(&late, &["10.4.0.31"]));
    scene.until(|theirs, ours| {
        changed(theirs, 14, 13)?;
        changed(ours, 14, 13)?;
        ensure(total(theirs).1 > before.1, || {
            "kube-proxy counts no new rules".into()
        })?;
        ensure(total(ours) == before, || "deltaproxy does".into())?;
        says(theirs, &[(SERVICES_PENDING, 0), (SLICES_PENDING, 0)])?;
        says(ours, &[(SERVICES_PENDING, 1), (SLICES_PENDING, 1)])?;
        ensure(
            of(ours, &format!("{FAILURES}{{ip_family=\"IPv4\"}}")) > 1,
            || "nothing failed".into(),
        )
    });
    scene.mend();
    // How often each has tried, and what the last try was, is a matter of time.
    let but = [&TIMING[..], &[FAILURES, PARTIAL_FAILURES]].concat();
    scene.until(|theirs, ours| {
        same(theirs, ours, &but)?;
        says(ours, &[(SERVICES_PENDING, 0), (SLICES_PENDING, 0)])?;
        ensure(total(ours).1 > before.1, || "no new rules".into())
    });
}

/// kube-proxy looks at everything again from time to time, and counts it as changes.
#[test]
fn what_has_not_changed_is_counted_by_kube_proxy_alone() {
    needs!(Upstream);
    let scene = Scene::new(&[], &["--config-sync-period=1s"]);
    scene.until(|theirs, ours| {
        changed(ours, 2, 1)?;
        ensure(of(theirs, SERVICES) > 6 && of(theirs, SLICES) > 3, || {
            "no resync".into()
        })
    });
}
