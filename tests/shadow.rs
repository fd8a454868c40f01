//! Shadow mode next to a real kube-proxy: it writes nothing, its lags agree with kube-proxy's own
//! metric, and differences are named.

use crate::schemas::assert_valid;
use crate::support;

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use deltaproxy::testing::host::nft_generation;
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::daemon::{Backend, Daemon, Program, backend_programs, real_program};
use support::lab::{CLUSTER_CIDR, Lab};
use support::left_out::is_due;
use support::process::run;
use support::program::{Ran, run_in};
use support::rules::{Family, plain};
use support::wait::{PATIENCE, ensure, eventually};
use support::{http, objects, on_both_backends, tell};

on_both_backends!(Upstream, a_shadow_measures_and_names_what_a_kube_proxy_does);

/// Besides that of the API server itself.
pub(crate) const SERVICES: usize = 20;

/// Time of changes, every [`PACE`], the time without changes before, and the least time until a
/// difference is reported.
const CHURN: Duration = Duration::from_secs(20);
pub(crate) const PACE: Duration = Duration::from_millis(230);
const IDLE: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_secs(60);

/// Ports of the shadow by default, and of one with other flags.
pub(crate) const SHADOW: u16 = 10349;
const OTHER_SHADOW: u16 = 10449;

fn a_shadow_measures_and_names_what_a_kube_proxy_does(backend: Backend) {
    // It waits for more than a minute: the backends take turns.
    if !is_due(u64::from(backend == Backend::Legacy), 2) {
        return;
    }
    let lab = Lab::new(backend);
    let api = lab.control.api();
    let services: Vec<Value> = (0..SERVICES).map(service).collect();
    api.apply_all(&services);
    let slices: Vec<Value> = services.iter().map(|one| slice(one, 1)).collect();
    api.apply_all(&slices);

    // Before there is a kube-proxy.
    let before = footprint(&lab, backend);
    let shadow = start_shadow(&lab, backend, SHADOW, CLUSTER_CIDR);
    wait_for(&lab, SHADOW, |v4| {
        v4["services"] == SERVICES + 1 && v4["readings"]["count"].as_u64() > Some(0)
    });
    assert_eq!(footprint(&lab, backend), before, "{}", shadow.log());

    let kube_proxy = lab.start(&Program::kube_proxy(), &[]);
    wait_for(&lab, SHADOW, |v4| v4["differing_services"] == 0);

    agrees_with_kube_proxy(&lab, backend, &shadow, &services);
    let log = shadow.log();
    let mut warnings = log
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"));
    // That is the kubeconfig of the test.
    assert!(warnings.all(|line| line.contains("cert bypassed")), "{log}");
    let text = report(&lab).success();
    assert!(
        text.contains(" 0 differences that affect packets\n"),
        "{text}"
    );

    names_differences(&lab, backend, (&shadow, &kube_proxy), &services);

    let events = api.get("/apis/events.k8s.io/v1/events").unwrap();
    let events: Value = serde_json::from_str(&events).unwrap();
    let mut events = events["items"].as_array().unwrap().iter();
    // That of kube-proxy; this program would write it with the same fields, once for each start.
    let starts = events.clone().filter(|event| event["reason"] == "Starting");
    assert_eq!(starts.count(), 1, "{events:?}");
    // The API server reports cluster IPs that it repairs.
    let known = ["kube-proxy", "ipallocator-repair-controller"];
    assert!(
        events.all(|event| known.contains(&event["reportingController"].as_str().unwrap())),
        "{events:?}"
    );
    drop(shadow);
    names_the_other_backend(&lab, backend);
}

/// A shadow that does not read the backend which kube-proxy writes says so.
fn names_the_other_backend(lab: &Lab, backend: Backend) {
    let read = match backend {
        Backend::Nft => Backend::Legacy,
        Backend::Legacy => Backend::Nft,
    };
    let (read_name, written) = (read.name(), backend.name());
    let shadow = start_shadow(lab, read, SHADOW, CLUSTER_CIDR);
    let v4 = wait_for(lab, SHADOW, |v4| v4["other_backend"] == written);
    assert_eq!(v4["backend"], read_name, "{v4}");
    shadow.wait_for_log(&format!(
        "backend {written} has rules of a proxy, and those of {read_name} are compared"
    ));
    let text = report(lab).stdout;
    let hint = format!("if kube-proxy writes these, set --iptables-backend={written}\n");
    assert!(text.contains(&hint), "{text}");
    let address = SocketAddr::from(([127, 0, 0, 1], SHADOW));
    let (_, metrics) = http::get(&lab.node, address, "/metrics").unwrap();
    let metric = "deltaproxy_other_backend_has_rules{ip_family=\"IPv4\"} 1\n";
    assert!(metrics.contains(metric), "{metrics}");
}

/// Stops kube-proxy before a change, deletes a rule of another Service, and starts a shadow with
/// another cluster CLUSTER_CIDR: all at once, because each takes a minute.
fn names_differences(
    lab: &Lab,
    backend: Backend,
    (shadow, kube_proxy): (&Daemon, &Daemon),
    services: &[Value],
) {
    let process = Pid::from_raw(kube_proxy.id().cast_signed());
    kill(process, Signal::SIGSTOP).unwrap();
    let chain = support::rules::service_chain("KUBE-SVC-", "default/churn-7:http", "tcp");
    let mut command = lab.node.command(real_program(backend, "iptables"));
    run(command.args(["-w", "-t", "nat", "-D", &chain, "1"]));
    let other = "--cluster-cidr=10.8.0.0/14,fd00:10:8::/48";
    let _other = start_shadow(lab, backend, OTHER_SHADOW, other);
    wait_for(lab, SHADOW, |v4| v4["differing_services"] == 1);
    let before = footprint(lab, backend);
    let payloads = family(lab, SHADOW)["own_payloads"]["count"].as_u64();
    lab.control.api().apply(&slice(&services[3], 2));
    let started = Instant::now();
    wait_for(lab, SHADOW, |v4| {
        v4["waiting_services"] == 1 && v4["own_payloads"]["count"].as_u64() > payloads
    });
    let late = wait_within(LATE + PATIENCE, lab, SHADOW, |v4| {
        v4["differences"].as_array().unwrap().len() >= 3
    });
    // The other one was seen some seconds before.
    assert!(started.elapsed() > LATE / 2);
    let found = |service: &str, kind: &str| {
        let differences = late["differences"].as_array().unwrap();
        let mut differences = differences.iter();
        let found = differences.find(|one| one["service"] == service && one["kind"] == kind);
        found.map(|found| (found["chain"].clone(), found["is_waiting"].clone()))
    };
    let edited = found("default/churn-7", "changed_chain");
    assert_eq!(edited, Some((json!(chain), json!(false))), "{late}");
    let waiting = found("default/churn-3", "changed_chain").unwrap();
    assert_eq!(waiting.1, true, "{late}");
    assert!(
        found("default/churn-3", "missing_chain").is_some(),
        "{late}"
    );
    // Each has a chain that masquerades what is not from the cluster CLUSTER_CIDR.
    wait_for(lab, OTHER_SHADOW, |v4| {
        let differences = v4["differences"].as_array().unwrap().iter();
        let changed = differences.filter(|one| one["kind"] == "changed_chain");
        v4["differing_services"] == SERVICES + 1 && changed.count() > SERVICES
    });
    // Both have worked, and nothing was written.
    assert_eq!(footprint(lab, backend), before);
    publishes_differences(lab);
    let log = shadow.log();
    let warning = "rules in the kernel have differed from the desired ones";
    assert!(
        log.contains(warning) && log.contains("default/churn-7"),
        "{log}"
    );
    let report = report(lab);
    assert_eq!(report.code, Some(1), "{report:#?}");
    let difference = "IPv4 default/churn-7: changed_chain nat KUBE-SVC-";
    assert!(report.stdout.contains(difference), "{report:#?}");

    kill(process, Signal::SIGCONT).unwrap();
    let v4 = wait_for(lab, SHADOW, |v4| {
        v4["waiting_services"] == 0 && v4["difference_count"] == 1
    });
    assert_eq!(v4["differences"][0]["service"], "default/churn-7");
}

/// The page is as its schema describes, and a metric counts the Service that waits.
fn publishes_differences(lab: &Lab) {
    let address = SocketAddr::from(([127, 0, 0, 1], SHADOW));
    let (_, page) = http::get(&lab.node, address, "/shadow").unwrap();
    assert_valid("shadow", &page);
    let (_, metrics) = http::get(&lab.node, address, "/metrics").unwrap();
    let waiting = "deltaproxy_shadow_waiting_services{ip_family=\"IPv4\"} 1\n";
    assert!(metrics.contains(waiting), "{metrics}");
}

/// Output of `shadow-report` on the node.
fn report(lab: &Lab) -> Ran {
    run_in(&lab.node, &["shadow-report"])
}

/// Changes Services for a while, and compares the lag with kube-proxy's own metric.
fn agrees_with_kube_proxy(lab: &Lab, backend: Backend, shadow: &Daemon, services: &[Value]) {
    let api = lab.control.api();
    let before = programming(lab);
    let triggered = |v4: &Value| {
        let lag = &v4["kube_proxy_triggered_lag"];
        (
            lag["count"].as_f64().unwrap(),
            lag["sum_seconds"].as_f64().unwrap(),
        )
    };
    let idle = cpu_share(shadow, || std::thread::sleep(IDLE));
    let counted = triggered(&family(lab, SHADOW));
    let started = Instant::now();
    let (mut round, mut rounds) = (0, 0.0);
    let busy = cpu_share(shadow, || {
        while started.elapsed() < CHURN {
            api.apply(&slice(&services[round % SERVICES], round + 2));
            round += 1;
            rounds += 1.0;
            std::thread::sleep(PACE);
        }
    });
    let is_all = |before: f64, after: f64| (after - before - rounds).abs() < 0.5;
    let v4 = wait_for(lab, SHADOW, |v4| {
        v4["waiting_services"] == 0 && is_all(counted.0, triggered(v4).0)
    });
    let after = eventually(PATIENCE, || {
        let after = programming(lab);
        ensure(is_all(before.0, after.0), || format!("{after:?}"))?;
        Ok(after)
    });
    let of_kube_proxy = (after.1 - before.1) / rounds;
    let of_shadow = (triggered(&v4).1 - counted.1) / rounds;
    tell(format_args!(
        "shadow: on {}: {rounds} changes: kube-proxy took {of_kube_proxy:.3} s on average by its \
         own metric, {of_shadow:.3} s by the shadow; {} of its {} bytes would have been written; \
         the shadow took {busy:.1} % of a CPU, and {idle:.1} % while idle",
        backend.name(),
        v4["own_payloads"]["bytes"],
        v4["kube_proxy_bytes_at_least"],
    ));
    let off = of_kube_proxy * 0.1;
    assert!((of_shadow - of_kube_proxy).abs() <= off);
    assert_eq!(v4["difference_count"], 0, "{v4}");
}

/// CPU time of a program and its children meanwhile, in percent of one CPU.
fn cpu_share(program: &Daemon, wait: impl FnOnce()) -> f64 {
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", program.id())).unwrap();
        let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
        // utime, stime, cutime and cstime.
        let times = fields.skip(11).take(4);
        times
            .map(|ticks| ticks.parse::<f64>().unwrap())
            .sum::<f64>()
    };
    let (started, before) = (Instant::now(), ticks());
    wait();
    // A tick is a hundredth of a second on all Linux systems that Rust supports.
    (ticks() - before) / started.elapsed().as_secs_f64()
}

/// Sum and count of kube-proxy's own metric.
fn programming(lab: &Lab) -> (f64, f64) {
    let (_, page) = http::get(&lab.node, Daemon::METRICS, "/metrics").unwrap();
    let value = |end: &str| {
        let name = format!("kubeproxy_network_programming_duration_seconds_{end}");
        http::value(&page, &format!("{name}{{ip_family=\"IPv4\"}}")).unwrap_or_default()
    };
    (value("count"), value("sum"))
}

pub(crate) fn service(number: usize) -> Value {
    let ip = format!("10.96.1.{number}");
    objects::service(
        &format!("churn-{number}"),
        json!({"clusterIP": ip, "clusterIPs": [ip]}),
    )
}

/// The slice of a Service in another state for each number, with a trigger time of now.
pub(crate) fn slice(service: &Value, number: usize) -> Value {
    let last = 1 + number % 200;
    let mut slice = objects::slice(service, &["10.4.1.1", &format!("10.4.2.{last}")]);
    let now = Timestamp::try_from(SystemTime::now()).unwrap();
    slice["metadata"]["annotations"] =
        json!({"endpoints.kubernetes.io/last-change-trigger-time": now.to_string()});
    slice
}

/// What the kernel shows of writes: the number of transactions and all rules with their handles, or
/// the rules of legacy; and a setting that a proxy writes.
pub(crate) fn footprint(lab: &Lab, backend: Backend) -> (u32, String, String) {
    let rules = match backend {
        Backend::Nft => String::new(),
        Backend::Legacy => Family::ALL.map(|family| lab.rules(family)).concat(),
    };
    let rules: Vec<&str> = plain(&rules)
        // To read a table of legacy makes it, without rules, if the kernel has none yet.
        .filter(|line| line.starts_with("-A ") || line.starts_with(":KUBE-"))
        .collect();
    let generation = lab.node.enter(|| nft_generation().unwrap());
    let setting = "sysctl -a -r 'route_localnet|nf_conntrack_(max|tcp|udp)'";
    let mut command = lab.node.command("sh");
    let settings = run(command.args(["-c", setting]));
    (generation, rules.join("\n"), settings)
}

pub(crate) fn start_shadow(lab: &Lab, backend: Backend, port: u16, cidr: &str) -> Daemon {
    let [kubeconfig, hostname] = lab.control.flags();
    let addresses = [
        format!("--metrics-bind-address=127.0.0.1:{port}"),
        format!("--healthz-bind-address=127.0.0.1:{}", port + 7),
    ];
    let mut all = vec!["--shadow", &*kubeconfig, &hostname, cidr];
    if port != SHADOW {
        all.extend(addresses.iter().map(String::as_str));
    }
    let programs = backend_programs(backend);
    Daemon::spawn(&Program::Deltaproxy, &lab.node, programs, &all)
}

/// IPv4 on the page of a shadow.
pub(crate) fn family(lab: &Lab, port: u16) -> Value {
    read_family(lab, port).unwrap()
}

fn read_family(lab: &Lab, port: u16) -> Result<Value, String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let (status, page) = http::get(&lab.node, address, "/shadow")?;
    ensure(status == 200, || page.clone())?;
    let page: Value = serde_json::from_str(&page).map_err(|error| error.to_string())?;
    Ok(page["families"][0].clone())
}

#[track_caller]
pub(crate) fn wait_for(lab: &Lab, port: u16, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_within(PATIENCE, lab, port, is_so)
}

#[track_caller]
fn wait_within(patience: Duration, lab: &Lab, port: u16, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(patience, || {
        let v4 = read_family(lab, port)?;
        ensure(is_so(&v4), || v4.to_string())?;
        Ok(v4)
    })
}
