//! A configuration that changes under kube-proxy and deltaproxy, side by side.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::lab::Lab;
use crate::support::volume::Volume;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects};

/// Time in which kube-proxy, which acts on an event at once, would have ended.
const ENOUGH: Duration = Duration::from_secs(3);

fn configuration(lab: &Lab, oom_score: i32) -> String {
    format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n\
         kind: KubeProxyConfiguration\n\
         mode: iptables\n\
         oomScoreAdj: {oom_score}\n\
         clusterCIDR: 10.4.0.0/14,fd00:10:4::/48\n\
         conntrack: {{maxPerCore: 0}}\n\
         clientConnection: {{kubeconfig: '{}'}}\n",
        lab.control.kubeconfig().display()
    )
}

fn start(lab: &Lab, program: &Program, volume: &Volume) -> Daemon {
    let config = format!("--config={}", volume.path().display());
    let name = format!("--hostname-override={}", objects::NODE);
    Daemon::start_program(program, &lab.node, Backend::Nft, &[&config, &name])
}

/// Fails unless the metrics of the configuration file have these values.
fn metrics_are(lab: &Lab, stale: u8, invalid: u8) {
    eventually(PATIENCE, || {
        let page = http::metrics(&lab.node, Daemon::METRICS);
        let expected = [
            format!("deltaproxy_config_stale {stale}"),
            format!("deltaproxy_config_invalid {invalid}"),
        ];
        let holds = |line: &String| page.lines().any(|known| known == line);
        ensure(expected.iter().all(holds), || {
            format!("{expected:?}: {page}")
        })
    });
}

fn event_is_recorded(lab: &Lab, reason: &str) {
    eventually(PATIENCE, || {
        let text = lab.control.api().get("/apis/events.k8s.io/v1/events");
        let list: Value = serde_json::from_str(&text.map_err(|why| format!("{why:?}"))?).unwrap();
        let mut events = list["items"].as_array().unwrap().iter();
        let is = events.any(|event| event["reason"] == reason);
        ensure(is, || format!("no {reason}: {list}"))
    });
}

#[test]
fn a_swap_ends_neither_proxy_and_a_write_ends_both() {
    needs!(Upstream);
    let lab = Lab::new(Backend::Nft);
    for program in [Program::kube_proxy(), Program::Deltaproxy] {
        let mut volume = Volume::new(&configuration(&lab, -1));
        let mut daemon = start(&lab, &program, &volume);
        volume.swap(&configuration(&lab, -2));
        if program.is_deltaproxy() {
            metrics_are(&lab, 1, 0);
            event_is_recorded(&lab, "ConfigurationStale");
            volume.swap("mode: nonsense\n");
            metrics_are(&lab, 0, 1);
            event_is_recorded(&lab, "ConfigurationRefused");
        } else {
            sleep(ENOUGH);
        }
        daemon.assert_running();
        daemon.terminate();

        let volume = Volume::new(&configuration(&lab, -1));
        let mut daemon = start(&lab, &program, &volume);
        if program.is_deltaproxy() {
            metrics_are(&lab, 0, 0);
        }
        fs::write(volume.path(), configuration(&lab, -2)).unwrap();
        let status = eventually(PATIENCE, || daemon.exited().ok_or("it runs".to_owned()));
        assert_eq!(status.code(), Some(1), "{program:?}: {}", daemon.log());
    }
}
