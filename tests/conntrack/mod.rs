//! UDP clients that keep their port, on a real kernel: they reach the right endpoint
//! a second after the rules changed, and other clients lose nothing.

pub(crate) mod scene;
mod table;

use std::fs;
use std::time::Duration;

use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::lab::pod_address;
use crate::support::node::with_restore;
use crate::support::rules::Family;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, on_both_backends};
use scene::{A, B, NODE_PORT, PORT, SECOND, Scene, Talk, addresses, cluster_ip, shop};

/// The scene with a daemon at work.
fn begun(backend: Backend) -> (Scene, Daemon) {
    let scene = Scene::new(backend);
    let daemon = scene.start();
    (scene, daemon)
}

/// One client of the Service in each family, which is answered.
fn clients(scene: &Scene) -> [Talk<'_>; 2] {
    let talks = Family::ALL.map(|family| scene.talk(family, cluster_ip(family), 8080));
    are_answered(&talks, PATIENCE);
    talks
}

/// All get an answer of any endpoint within this time.
fn are_answered(talks: &[Talk<'_>], within: Duration) {
    for talk in talks {
        eventually(within, || talk.ask());
    }
}

fn clients_of_a_removed_endpoint_move_on(backend: Backend) {
    let (scene, _daemon) = begun(backend);
    let talks = Family::ALL.map(|family| scene.talk_to_both(family, cluster_ip(family), 8080));
    // The same port without the Service, on the very pod that goes away as its endpoint.
    let direct = Family::ALL.map(|family| {
        let talk = scene.talk(family, &pod_address(family, A).to_string(), 8080);
        talk.reaches("a");
        talk
    });
    let untouched = || {
        let staying = talks.iter().map(|[_, staying]| staying);
        staying.chain(&direct).map(Talk::id).collect::<Vec<_>>()
    };
    let before = untouched();
    let stale = Family::ALL.map(|family| scene.flows(family, A));
    scene.change(&[B]);
    for [leaving, staying] in &talks {
        leaving.reaches("b");
        staying.reaches("b");
    }
    assert_eq!(untouched(), before);
    for (family, stale) in ["IPv4", "IPv6"].iter().zip(stale) {
        let name = "kubeproxy_conntrack_reconciler_deleted_entries_total";
        let line = format!("{name}{{ip_family=\"{family}\"}} {stale}");
        eventually(PATIENCE, || {
            ensure(scene.node.metric(&line), || line.clone())
        });
    }
}

on_both_backends!(Kernel, clients_of_a_removed_endpoint_move_on);

#[test]
fn node_ports_are_those_of_this_machine() {
    needs!(Kernel);
    let (scene, _daemon) = begun(Backend::Nft);
    let [here, there] = [0, 1].map(|at| Family::ALL.map(|family| (family, addresses(family)[at])));
    let talks = here.map(|(family, ip)| scene.talk_to_both(family, ip, NODE_PORT));
    let elsewhere = there.map(|(family, ip)| {
        let talk = scene.talk(family, ip, NODE_PORT);
        // No program listens: the entry is what matters.
        talk.ask().unwrap_err();
        talk
    });
    let before = elsewhere.each_ref().map(Talk::id);
    scene.change(&[A]);
    for [staying, leaving] in &talks {
        leaving.reaches("a");
        staying.reaches("a");
    }
    assert_eq!(elsewhere.each_ref().map(Talk::id), before);
}

/// Rules for such an address come with a partial sync.
#[test]
fn node_ports_on_an_address_that_the_node_gained_are_swept() {
    needs!(Kernel);
    let scene = Scene::new(Backend::Nft);
    let networks = "--nodeport-addresses=10.200.0.0/16,fd00:200::/64";
    let _daemon = scene.start_with(&[networks]);
    let gained = [
        (Family::V4, "10.200.0.3", "/16"),
        (Family::V6, "fd00:200::3", "/64"),
    ];
    for (_, ip, length) in gained {
        scene.node.netns.address("eth0", &format!("{ip}{length}"));
    }
    // A client that comes before the rules, and never pauses.
    let early = gained.map(|(family, ip, _)| scene.talk(family, ip, NODE_PORT));
    for talk in &early {
        let _ = talk.ask();
        eventually(PATIENCE, || talk.ask());
    }
    let talks = gained.map(|(family, ip, _)| scene.talk_to_both(family, ip, NODE_PORT));
    scene.change(&[A]);
    for [staying, leaving] in &talks {
        leaving.reaches("a");
        staying.reaches("a");
    }
}

#[test]
fn clients_of_a_deleted_service_lose_it_and_find_it_again() {
    needs!(Kernel);
    let (scene, _daemon) = begun(Backend::Nft);
    let talks = clients(&scene);
    let shop = scene.node.manifests.path().join("shop.yaml");
    fs::remove_file(shop).expect("remove a file");
    scene.wait_for_endpoints(&[]);
    for talk in &talks {
        talk.reaches_nobody();
        // They go on, and have an entry by which they go nowhere.
        let _ = talk.ask();
        let (_, entry) = talk.entry().expect("an entry");
        assert!(
            entry.matches(cluster_ip(talk.family)).count() == 2,
            "{entry}"
        );
    }
    scene.change(&[A, B]);
    are_answered(&talks, SECOND);
}

#[test]
fn a_port_that_changes_takes_its_clients_along() {
    needs!(Kernel);
    let (scene, _daemon) = begun(Backend::Nft);
    let talks = Family::ALL.map(|family| {
        let ports = [8080, 8081];
        ports.map(|port| scene.talk(family, cluster_ip(family), port))
    });
    for [old, new] in &talks {
        eventually(PATIENCE, || old.ask());
        new.ask().unwrap_err();
    }
    scene.node.write(&shop(8081, &[A, B]));
    scene.node.wait_for_rule("--dport 8081");
    for [old, new] in &talks {
        old.reaches_nobody();
        eventually(SECOND, || new.ask());
    }
}

#[test]
fn without_endpoints_clients_are_refused_at_once() {
    needs!(Kernel);
    let (scene, _daemon) = begun(Backend::Nft);
    let talks = clients(&scene);
    scene.change(&[]);
    for talk in &talks {
        eventually(SECOND, || match talk.ask() {
            Err(why) if why.contains("refused") => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    scene.change(&[A, B]);
    are_answered(&talks, SECOND);
}

#[test]
fn nothing_is_lost_by_failed_restores_flushes_and_restarts() {
    needs!(Kernel);
    let scene = Scene::new(Backend::Nft);
    let broken = scene.node.manifests.path().join("broken");
    let script = format!("[ ! -e {} ] || exit 3\nexec $REAL \"$@\"", broken.display());
    let mut daemon = scene.node.start(with_restore(Backend::Nft, &script));
    scene.wait_for_endpoints(&[A, B]);
    let [a, b] = scene.talk_to_both(Family::V4, cluster_ip(Family::V4), 8080);
    // A restore fails, and another one succeeds.
    fs::write(&broken, "").expect("write a file");
    scene.node.write(&shop(PORT, &[B]));
    daemon.wait_for_log("restore failed");
    a.reaches("a");
    fs::remove_file(&broken).expect("remove a file");
    scene.wait_for_endpoints(&[B]);
    a.reaches("b");

    // Rules are flushed, and a client that begins then goes nowhere.
    scene.node.iptables(&["-t", "nat", "-F"]);
    let astray = scene.talk(Family::V4, cluster_ip(Family::V4), 8080);
    let _ = astray.ask();
    eventually(PATIENCE, || astray.ask());

    // An endpoint goes away while no daemon runs.
    assert!(daemon.terminate().success());
    scene.node.write(&shop(PORT, &[A]));
    b.reaches("b");
    let _daemon = scene.node.start(backend_programs(Backend::Nft));
    scene.wait_for_endpoints(&[A]);
    for talk in [a, b, astray] {
        talk.reaches("a");
    }
}
