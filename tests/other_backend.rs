//! Commands that read live rules, on a kernel with rules of a proxy in both backends.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::needs;
use crate::support::netns::Netns;
use crate::support::node::SHOP;
use crate::support::program::{PROGRAM, Ran};
use serde_json::Value;

/// A node on which backend `shown` has the Service without endpoints, and `other` with those that
/// it had before.
struct TwoBackends {
    netns: Netns,
    shown: &'static str,
    manifests: tempfile::TempDir,
}

impl TwoBackends {
    fn new(shown: &'static str, other: &str) -> Self {
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
    fn apply(&self, manifests: &str, backend: &str) {
        std::fs::write(self.manifests.path().join("shop.yaml"), manifests).unwrap();
        let mut render = self.netns.command(PROGRAM);
        let text = Ran::of(self.with_manifests(render.arg("render"))).success();
        let v4 = text.split("# ip6tables").next().unwrap();
        let mut restore = self.netns.command(format!("iptables-{backend}-restore"));
        let restore = restore.args(["-w", "--noflush"]).stdin(Stdio::piped());
        let mut restore = restore.spawn().unwrap();
        let mut stdin = restore.stdin.take().unwrap();
        stdin.write_all(v4.as_bytes()).unwrap();
        drop(stdin);
        assert!(restore.wait().unwrap().success(), "{v4}");
    }

    fn with_manifests<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let manifests = self.manifests.path();
        command
            .args(["--hostname-override=node1", "--cluster-cidr=10.4.0.0/14"])
            .arg("--manifests")
            .arg(manifests)
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.netns.command(PROGRAM);
        Ran::of(command.args(args).args(["--iptables-backend", self.shown]))
    }
}

fn both_backends_are_read(shown: &'static str, other: &'static str) {
    needs!(Kernel);
    let node = TwoBackends::new(shown, other);
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
    let diff = node.with_manifests(diff.args(["diff", "--iptables-backend", shown]));
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

#[test]
fn leftovers_in_nft_are_reported_with_the_rules_of_legacy() {
    both_backends_are_read("legacy", "nft");
}

#[test]
fn leftovers_in_legacy_are_reported_with_the_rules_of_nft() {
    both_backends_are_read("nft", "legacy");
}
