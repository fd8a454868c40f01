//! Commands that read live rules, on a kernel with rules of a proxy in both backends.

use std::process::Command;

use crate::support::daemon::Backend;
use crate::support::netns::Netns;
use crate::support::node::SHOP;
use crate::support::on_both_backends;
use crate::support::program::{PROGRAM, Ran, run_in};
use crate::support::rules::{Family, restore};
use serde_json::Value;

/// A node on which backend `shown` has the Service without endpoints, and `other` with those that
/// it had before.
struct TwoBackends {
    netns: Netns,
    shown: Backend,
    manifests: tempfile::TempDir,
}

impl TwoBackends {
    fn new(shown: Backend, other: Backend) -> Self {
        let netns = Netns::new("backends");
        netns.ip("link set lo up");
        let manifests = tempfile::tempdir().unwrap();
        let node = Self {
            netns,
            shown,
            manifests,
        };
        node.apply(SHOP, other);
        let (without_endpoints, _) = SHOP.split_once("---").unwrap();
        node.apply(without_endpoints, shown);
        node
    }

    /// Writes the rules of manifests to a backend.
    fn apply(&self, manifests: &str, backend: Backend) {
        std::fs::write(self.manifests.path().join("shop.yaml"), manifests).unwrap();
        let mut render = self.netns.command(PROGRAM);
        let text = Ran::of(self.with_manifests(render.arg("render"))).success();
        let v4 = text.split("# ip6tables").next().unwrap();
        restore(&self.netns, backend, Family::V4, &["--noflush"], v4);
    }

    fn with_manifests<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let manifests = self.manifests.path();
        command
            .args(["--hostname-override=node1", "--cluster-cidr=10.4.0.0/14"])
            .arg("--manifests")
            .arg(manifests)
    }

    fn run(&self, args: &[&str]) -> Ran {
        let backend = ["--iptables-backend", self.shown.name()];
        run_in(&self.netns, &[args, &backend].concat())
    }
}

on_both_backends!(Kernel, leftovers_in_the_other_backend_are_reported);

fn leftovers_in_the_other_backend_are_reported(shown: Backend) {
    let other = match shown {
        Backend::Nft => Backend::Legacy,
        Backend::Legacy => Backend::Nft,
    };
    let node = TwoBackends::new(shown, other);
    let other = other.name();
    let warning = format!("warning: backend {other} has IPv4 rules of a proxy as well");
    let hint = format!("hint: `deltaproxy cleanup --iptables-backend={other}` removes");

    let explained = node.run(&["explain", "10.96.0.10:80"]);
    let (out, err) = (&explained.stdout, &explained.stderr);
    assert!(explained.is_success(), "{out}{err}");
    assert!(err.contains(&warning) && err.contains(&hint), "{err}");
    let unclear = format!(
        "unclear: backend {other} has rules for these packets as well, which traverse both; by the \
         rules that are shown: rejected"
    );
    assert!(out.contains(&unclear), "{out}");
    let json = node.run(&["explain", "10.96.0.10:80", "--output=json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let outcome = &json["destinations"][0]["ways"][0]["outcomes"][0];
    assert_eq!(outcome["result"], "unclear", "{json:#}");
    // The other backend has no rule for these packets.
    let routed = node.run(&["explain", "192.0.2.1:80"]).stdout;
    assert!(!routed.contains("unclear"), "{routed}");

    let services = node.run(&["services"]);
    let err = &services.stderr;
    assert!(services.is_success(), "{err}");
    assert!(err.contains(&warning) && err.contains(&hint), "{err}");

    let mut diff = node.netns.command(PROGRAM);
    let diff = node.with_manifests(diff.args(["diff", "--iptables-backend", shown.name()]));
    let diff = Ran::of(diff);
    let (out, err) = (&diff.stdout, &diff.stderr);
    assert_eq!(diff.code, Some(2), "{out}{err}");
    assert!(
        out.contains(&format!("rules of the backend {other} not compared")),
        "{out}"
    );
    let error = format!("IPv4 rules of a proxy in backend {other} are not compared");
    assert!(err.contains(&error), "{err}");
}
