//! Checks of the test harness itself: when one of these fails, no other kernel test means anything.

use std::net::SocketAddr;

use crate::support::daemon::Backend;
use crate::support::kube::ControlPlane;
use crate::support::lab::{Lab, POD_PORT, pod_address};
use crate::support::netns::Netns;
use crate::support::rules::{self, Family};
use crate::support::servers::{Reply, Server, tcp_request, udp_request};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects};

#[test]
fn chain_names_are_those_of_upstream() {
    assert_eq!(
        rules::service_chain("KUBE-SVC-", "ns1/svc1:p80", "tcp"),
        "KUBE-SVC-XPGD46QRK7WJZT7O"
    );
    assert_eq!(
        rules::endpoint_chain("ns1/svc1:p80", "tcp", "10.180.0.1:80"),
        "KUBE-SEP-SXIVWICOYRO3J4NJ"
    );
}

#[test]
fn clients_tell_answer_refusal_and_silence_apart() {
    needs!(Kernel);
    let (near, far) = (Netns::new("near"), Netns::new("far"));
    near.join("eth0", &far, "eth0");
    near.address("eth0", "192.0.2.1/24");
    far.address("eth0", "192.0.2.2/24");
    near.address("eth0", "2001:db8::1/64");
    far.address("eth0", "2001:db8::2/64");
    for (server, peer) in [
        ("192.0.2.2:80", "192.0.2.1"),
        ("[2001:db8::2]:80", "2001:db8::1"),
    ] {
        let server: SocketAddr = server.parse().unwrap();
        let answer = Reply::Answer {
            server: "far".to_owned(),
            peer: peer.parse().unwrap(),
        };
        let running = Server::start(&far, "far", server);
        assert_eq!(tcp_request(&near, server), answer);
        assert_eq!(udp_request(&near, server), answer);
        drop(running);
        assert_eq!(tcp_request(&near, server), Reply::Refused);
        assert_eq!(udp_request(&near, server), Reply::Refused);
    }
    // Frames to a hardware address that no device has are silently lost.
    near.ip("neighbour replace 192.0.2.3 lladdr 02:00:00:00:00:01 dev eth0");
    assert_eq!(
        tcp_request(&near, "192.0.2.3:80".parse().unwrap()),
        Reply::TimedOut
    );
}

#[test]
fn namespaces_vanish_with_their_processes_even_after_a_panic() {
    needs!(Kernel);
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let netns = Netns::new("doomed");
        let mut child = netns.command("sleep").arg("1000").spawn().unwrap();
        eventually(PATIENCE, || {
            ensure(!netns.pids().is_empty(), || {
                "sleep is not inside yet".to_owned()
            })
        });
        tell.send((netns.path(), std::thread::spawn(move || child.wait())))
            .unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(thread.join().is_err());
    let (path, waiter) = told.recv().unwrap();
    assert!(!path.exists());
    assert!(!waiter.join().unwrap().unwrap().success());
}

#[test]
fn the_api_server_can_be_stopped_and_started_again() {
    needs!(Cluster);
    let mut control = ControlPlane::start();
    let service = objects::service("web", serde_json::json!({"clusterIP": "10.96.1.1"}));
    let slice = objects::slice(&service, &["10.4.0.11"]);
    control.api().apply_all(&[service.clone(), slice.clone()]);
    control.stop_server();
    assert!(control.api().get("/readyz").is_err());
    control.start_server();
    let read = control.api().read(&service).unwrap();
    assert_eq!(read["spec"]["clusterIP"], "10.96.1.1");
    control.api().merge(
        &service,
        &serde_json::json!({"spec": {"sessionAffinity": "ClientIP"}}),
    );
    control.api().delete(&slice);
    assert!(control.api().read(&slice).is_err());
}

#[test]
fn pods_and_outside_reach_each_other_in_the_lab() {
    needs!(Cluster);
    let lab = Lab::new(Backend::Nft);
    for family in [Family::V4, Family::V6] {
        let to = SocketAddr::new(pod_address(family, 11), POD_PORT);
        let reply = tcp_request(&lab.client.netns, to);
        assert_eq!(reply.server(), Ok("a"));
        assert_eq!(reply.peer(), pod_address(family, 20));
        assert_eq!(udp_request(&lab.node, to).server(), Ok("a"));
    }
}
