//! Tests of `listen`.

use std::net::Ipv4Addr;

use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn the_wildcard_listens_on_both_families() {
    let listener = listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .unwrap();
    if listener.local_addr().unwrap().is_ipv6() {
        TcpStream::connect((Ipv6Addr::LOCALHOST, port))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn two_families_share_a_port() {
    let v6 = listen_in_family(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)));
    let Ok(v6) = v6 else { return };
    let port = v6.local_addr().unwrap().port();
    let v4 = listen_in_family(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).unwrap();
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .unwrap();
    drop(v4);
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
    assert_eq!(
        refused.unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
}

#[tokio::test(start_paused = true)]
async fn a_port_in_use_is_retried() {
    let first = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = first.local_addr().unwrap();
    let error = listen(address).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on `{address}`"));

    let stop = CancellationToken::new();
    let later = async {
        tokio::time::sleep(RETRY * 3 / 2).await;
        drop(first);
    };
    let (second, ()) = tokio::join!(listen_retrying(address, "a test", "--test", &stop), later);
    assert_eq!(second.unwrap().local_addr().unwrap(), address);

    let taken = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    stop.cancel();
    let address = taken.local_addr().unwrap();
    assert!(
        listen_retrying(address, "a test", "--test", &stop)
            .await
            .is_none()
    );
}
